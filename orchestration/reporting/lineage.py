"""Where a day's model comes from, read lightly from its manifest: the files it names are not hashed again."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from features.home import Home

MARKER = "COMMITTED"
"""File that a checkpoint gets last; see `training.checkpoint`, which is not imported here because it loads torch."""


@dataclass(frozen=True)
class Lineage:
    """Identity of the newest committed attempt of a model line and day.

    Attributes:
        attempt: its folder's name.
        digest: of the model.
        parent: digest of the model it continues from, empty for a cold start.
        generation: of the foundation model that a vertical learned from, empty when there is none.
        position: last day whose labels it learned, empty when unknown.
        trained: pairs trained on, None when unknown.
        scored: pairs scored before that, None when unknown.
        note: why nothing is known, empty when something is.
    """

    attempt: str = ""
    digest: str = ""
    parent: str = ""
    generation: str = ""
    position: str = ""
    trained: int | None = None
    scored: int | None = None
    note: str = ""


def lineage_of(home: Home, line: str, ds: str) -> Lineage:
    """Lineage of a line's newest committed model of a day; what cannot be read is said in `note`."""
    attempts = (home.checkpoints / line / ds).glob("attempt-*")
    committed = sorted(path for path in attempts if (path / MARKER).exists())
    if not committed:
        return Lineage(note="no model of that day is committed")
    return _lineage(committed[-1])


def _lineage(folder: Path) -> Lineage:
    try:
        found: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        metrics = found.get("metrics") or {}
        return Lineage(
            attempt=folder.name,
            digest=found["digest"],
            parent=(found.get("parent") or {}).get("digest") or "",
            generation=found.get("generation") or "",
            position=found.get("position") or "",
            trained=metrics.get("trained"),
            scored=metrics.get("scored"),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return Lineage(attempt=folder.name, note=f"its manifest cannot be read ({error!r})")
