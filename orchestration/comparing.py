"""Which model a person means: the live one, that of a day, or one by the digest of it or of its package."""

import json
from typing import TYPE_CHECKING

from features.errors import GemlineError
from features.home import Home
from orchestration.assets.lines import line_of
from orchestration.day_option import is_day
from serving import releases

if TYPE_CHECKING:
    from features.tables import Tables
    from training.comparison import Comparison

LIVE = "live"
SHORTEST = 6
"""Letters of a digest that name it."""


def compared(tables: "Tables", line: str, a: str, b: str) -> "Comparison":
    """Compare two models of a line, each as `digest_of` understands it."""
    from training.comparison import compare_models

    first, second = (digest_of(tables, line, name) for name in (a, b))
    return compare_models(tables, line_of(tables.world, line), first, second)


def digest_of(tables: "Tables", line: str, name: str) -> str:
    """Digest of a model.

    Args:
        tables: the world's tables.
        line: model line.
        name: `live`; a day; or the first letters of the digest of a model that was decided about, or of a package.

    Raises:
        GemlineError: there is no such model, or several.
    """
    packages = _packages(tables.home, line)
    if name == LIVE:
        live = releases.live(tables.home.releases, line)
        if live is None:
            raise GemlineError(f"nothing of {line} is live; name a day or a digest")
        return packages.get(live.digest, live.digest)
    if is_day(name):
        made = tables.decisions.of_day(line, name)
        if made is None:
            raise GemlineError(f"nothing was decided about {line} of {name}; materialize its release first")
        return made.digest
    known = {row.digest: row.digest for row in tables.decisions.standing(line)} | packages
    found = {model for digest, model in known.items() if len(name) >= SHORTEST and digest.startswith(name)}
    if len(found) != 1:
        raise GemlineError(
            f"{name!r} names {'no model' if not found else 'several models'} of {line}; give `{LIVE}`, a day "
            f"(YYYY-MM-DD), or at least {SHORTEST} letters of the digest of a model or package"
        )
    return found.pop()


def _packages(home: Home, line: str) -> dict[str, str]:
    """Digest of each package of a vertical, and of the model in it."""
    found = {}
    for path in sorted((home.releases / line / "packages").glob("*/manifest.json")):
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            continue  # a damaged package names nothing; the service says so where it matters
        found[manifest["digest"]] = manifest["model_digest"]
    return found
