"""Which generations are still needed: by live packages, and by models that the next day continues from or must beat."""

import json
from typing import TYPE_CHECKING

from features.errors import GemlineError
from serving import releases

if TYPE_CHECKING:
    from features.tables import Tables


def pinned_generations(tables: "Tables") -> set[str]:
    """Names of the generations that verticals were made with and that must therefore stay filled.

    Raises:
        GemlineError: a live pointer, a live package or a checkpoint is damaged.
    """
    from training.checkpoint import manifest_of

    home, found = tables.home, set()
    for vertical in tables.world.verticals:
        live = releases.live(home.releases, vertical.name)
        if live is not None:
            found.add(_of_package(tables, vertical.name, live))
        for made in tables.decisions.newest(vertical.name):
            found.add(str(manifest_of(home.root / made.path, made.digest)["generation"]))
    return found


def _of_package(tables: "Tables", vertical: str, live: releases.Release) -> str:
    path = releases.artefact_path(tables.home.releases, live) / "manifest.json"
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["generation"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GemlineError(
            f"the live package of {vertical} does not say its generation ({error!r}); materialize "
            f"{tables.world.name}/{vertical}/package of {live.ds}"
        ) from error
