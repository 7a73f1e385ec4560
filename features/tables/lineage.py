"""Which days of which tables a day is made from, and which days were made from other content than stands now.

Each publish notes a digest of its inputs beside the content hash. A day is stale when the digest of what is
published now is another; running it again makes it fresh, also when its content stays as it was. Nothing here
looks at a clock.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from features.days import shift
from features.worlds.schema import World

if TYPE_CHECKING:
    from features.tables.tables import Tables

Window = tuple[str, str]
"""First and last day, both included."""
Windows = dict[str, Window]
"""Input table -> days that are read of it."""


@dataclass(frozen=True)
class StaleDay:
    """A published day that no longer follows from what is published.

    Attributes:
        table: the table.
        ds: the day.
        because: inputs that changed since it was made; empty when it only follows another stale day.
        follows: stale inputs, which may change when they are made again.
        rows: rows that making it again writes.
    """

    table: str
    ds: str
    because: tuple[str, ...]
    follows: tuple[str, ...]
    rows: int


def windows_of(table: str, world: World, ds: str) -> Windows:
    """Days of other tables from which a day of a table is made; none for what comes from the raw log or a model."""
    made = WINDOWS.get(table)
    found = made(world, ds) if made else {}
    return {name: window for name, window in found.items() if window[0] <= window[1]}


def _same(ds: str) -> Window:
    return ds, ds


def _until(world: World, ds: str) -> Window:
    return world.first_day, ds


def _back(world: World, ds: str, days: int) -> Window:
    return max(shift(ds, -days), world.first_day), ds


def _examples(world: World, ds: str) -> Windows:
    return {"impressions": _same(ds), **_seen_by(world, shift(ds, -1))}


def _seen_by(world: World, ds: str) -> Windows:
    """What requests of the day after `ds` see of users and ads."""
    statistics = _back(world, ds, world.stats_ttl.days)
    attributes = _until(world, ds)
    return {"user_stats": statistics, "ad_stats": statistics, "users": attributes, "ads": attributes}


def _labels(world: World, ds: str) -> Windows:
    from features.labels import reach

    days = reach(world)
    window = _until(world, ds) if days is None else _back(world, ds, days)
    return {"impressions": window, "outcomes": window}


def _candidates(world: World, ds: str) -> Windows:
    window = _back(world, ds, world.precompute.active_days - 1)
    return {"impressions": window, "events": window}


def _vectors(world: World, ds: str) -> Windows:
    return {"solaris_candidates": _same(ds), "user_history": _until(world, ds), **_seen_by(world, ds)}


def _train_vectors(world: World, ds: str) -> Windows:
    runs = _back(world, shift(ds, -1), world.precompute.life.days + 2)
    return {"examples": _same(ds), "solaris_vectors": runs}


WINDOWS: dict[str, Callable[[World, str], Windows]] = {
    "user_stats": lambda world, ds: {"events": _until(world, ds)},
    "ad_stats": lambda world, ds: {"events": _until(world, ds)},
    "user_history": lambda _world, ds: {"events": _same(ds)},
    "user_recent": lambda world, ds: {"user_history": _until(world, ds)},
    "examples": _examples,
    "labels": _labels,
    "fm_outputs": lambda world, ds: {"examples": _same(ds), "user_history": _until(world, shift(ds, -1))},
    "solaris_candidates": _candidates,
    "solaris_vectors": _vectors,
    "solaris_train_vectors": _train_vectors,
}
"""Inputs of each derived table, in the order in which they are made."""


def digests_of(table: str, days: Sequence[str], tables: "Tables") -> dict[str, str]:
    """Day -> what it is made from, as JSON: input table -> digest of the content of its published days; "" for none."""
    published = _Published(tables)
    windows = {ds: windows_of(table, tables.world, ds) for ds in days}
    return {ds: json.dumps(published.digests(inputs)) if inputs else "" for ds, inputs in windows.items()}


def stale_days(tables: "Tables") -> list[StaleDay]:
    """Published days of derived tables that are stale, or follow such a day; in the order to make them again.

    Days that were published before inputs were noted are taken as fresh until an input of theirs is stale.
    """
    published = _Published(tables)
    found: dict[str, list[StaleDay]] = {}
    for table in WINDOWS:
        for ds, gate in sorted(tables.ledger.published(table).items()):
            windows = windows_of(table, tables.world, ds)
            noted = json.loads(gate.inputs or "{}")
            now = published.digests({name: windows[name] for name in windows if name in noted})
            because = tuple(name for name, digest in now.items() if digest != noted[name])
            follows = tuple(
                name
                for name, (first, last) in windows.items()
                if any(first <= day.ds <= last for day in found.get(name, ()))
            )
            if because or follows:
                found.setdefault(table, []).append(StaleDay(table, ds, because, follows, gate.rows))
    return [day for days in found.values() for day in days]


class _Published:
    """Content of the readable days of any table, read once."""

    def __init__(self, tables: "Tables") -> None:
        self._tables = tables
        self._days: dict[str, dict[str, str]] = {}

    def digests(self, windows: Windows) -> dict[str, str]:
        """Table -> digest of its days within the window."""
        return {name: self._digest(name, *window) for name, window in sorted(windows.items())}

    def _digest(self, table: str, first: str, last: str) -> str:
        if table not in self._days:
            self._days[table] = self._tables.readable_days(table)
        content = "".join(f"{ds}={digest};" for ds, digest in self._days[table].items() if first <= ds <= last)
        return hashlib.sha256(content.encode()).hexdigest()[:16]
