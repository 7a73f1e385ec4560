"""What no longer follows from the published tables.

Tables are compared by the digests of their inputs (`features.tables.lineage`), models by what they consumed
(design, rule 7). A model keeps its digest and stays live: that it was trained on superseded content is said here.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from features.worlds.schema import GEM
from serving import releases

if TYPE_CHECKING:
    from features.tables import Tables
    from features.tables.decisions import ModelDecision
    from features.tables.lineage import StaleDay


@dataclass(frozen=True)
class StaleModel:
    """A model that was accepted and trained on content that stands no more, or will not when tables are made again.

    Attributes:
        line: `gem` or a vertical.
        ds: its day.
        because: tables whose consumed days were restated.
        follows: stale tables that it consumed, and `parent` when it continues from a stale model.
        live: whether it is what is served.
    """

    line: str
    ds: str
    because: tuple[str, ...]
    follows: tuple[str, ...]
    live: bool


@dataclass(frozen=True)
class Staleness:
    """Everything stale of a world, each in the order in which to make it again."""

    days: tuple["StaleDay", ...]
    models: tuple[StaleModel, ...]

    def range_of(self, tables: Sequence[str]) -> tuple[str, str] | None:
        """First and last stale day of some tables."""
        found = [day.ds for day in self.days if day.table in tables]
        return (min(found), max(found)) if found else None


def staleness(tables: "Tables") -> Staleness:
    """Compare what was published and trained with what stands now."""
    from features.tables.lineage import stale_days

    days = stale_days(tables)
    lines = (GEM, *(vertical.name for vertical in tables.world.verticals))
    return Staleness(tuple(days), tuple(model for line in lines for model in _stale_models(tables, line, days)))


def _stale_models(tables: "Tables", line: str, days: "Sequence[StaleDay]") -> list[StaleModel]:
    from features.tables.decisions import ACCEPTED

    live = releases.live(tables.home.releases, line)
    stale = {(day.table, day.ds) for day in days}
    found: list[StaleModel] = []
    digests: set[str] = set()
    for ds, made in tables.decisions.of_kinds(line, ACCEPTED).items():
        consumed, parent = _consumed(tables, made)
        hashes = {table: tables.readable_days(table) for table in {entry[0] for entry in consumed}}
        because = {table for table, day, content in consumed if hashes[table].get(day) != content}
        follows = {table for table, day, _ in consumed if (table, day) in stale} - because
        if parent in digests:
            follows.add("parent")
        if because or follows:
            digests.add(made.digest)
            served = live is not None and (live.ds, live.digest) == (ds, made.digest)
            found.append(StaleModel(line, ds, tuple(sorted(because)), tuple(sorted(follows)), served))
    return found


def _consumed(tables: "Tables", made: "ModelDecision") -> tuple[list[tuple[str, str, str]], str]:
    """What a model was trained on, and its parent's digest; a checkpoint that is gone says nothing."""
    path = tables.home.root / made.path / "manifest.json"
    if not path.exists():
        return [], ""
    manifest = json.loads(path.read_text(encoding="utf-8"))
    return [tuple(entry) for entry in manifest["consumed"]], (manifest["parent"] or {}).get("digest", "")
