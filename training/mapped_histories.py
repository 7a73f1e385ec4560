"""The history store on disk: sorted once, mapped by every process that reads it, and carried on from day to day.

It is derived from the published days of `user_history` and lies beside their tables, in `cache/histories`; whoever
deletes it loses time and nothing else. A store is named by what it was made of: the history fields, and each day with
its content hash. When a day was appended, restated or left out, the nearest store that is there is carried on: events
of days that no longer count are dropped and those of new days put in their places, in one pass over each column. What
comes out equals `read_histories` of all days, so nothing depends on which stores were there before.

An event takes 20 bytes (stamp, day of arrival, type), and for each field 9 of its id and 4 of its table row. Mapped
pages are shared: a second process costs no second copy. The length of a history is an argument of the reader, so
nothing here knows it.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from features.transform.columns import Column
from features.transform.hashing import rows_of, table_salt
from features.transform.histories import HistoryStore, event_order, expand, first_not_below, late_users
from training.parquet import read_histories
from training.plan import DayFiles

LAYOUT = 1
"""Part of a store's name: another layout makes other stores."""
KEPT = 4
"""Stores that stay, newest use first: models of one day read different spans."""
CHUNK = 1 << 22
"""Events whose ids are hashed at once."""


@dataclass(frozen=True)
class MappedHistories(HistoryStore):
    """A store whose arrays are mapped files.

    Attributes:
        folder: of the files.
    """

    folder: Path = Path()

    def _field_rows(self, name: str, table: str, rows: int) -> np.ndarray:
        """As of any store, but hashed once for all processes: int32 where the table's rows allow it."""
        if name not in self.fields:
            return super()._field_rows(name, table, rows)
        path = self.folder / f"rows-{list(self.fields).index(name)}-{table_salt(table):x}-{rows}.npy"
        try:
            if not path.exists():
                self._write_rows(path, self.fields[name], rows, table_salt(table))
            return _mapped(path)
        except OSError:
            # the folder was deleted, or gave way to newer stores, since it was mapped
            return super()._field_rows(name, table, rows)

    def _write_rows(self, path: Path, column: Column, rows: int, salt: int) -> None:
        staged = path.with_suffix(f".{os.getpid()}")
        kind = np.int32 if rows <= np.iinfo(np.int32).max else np.int64
        out = np.lib.format.open_memmap(staged, mode="w+", dtype=kind, shape=self.event_us.shape)
        for start in range(0, len(out), CHUNK):
            part = slice(start, start + CHUNK)
            out[part] = rows_of(column.values[part], column.missing[part], rows, salt)
        out.flush()
        staged.replace(path)


def histories(days: Mapping[str, DayFiles], fields: Sequence[str]) -> HistoryStore:
    """All days of `user_history` as one store, mapped where its tables are a world's own, else in memory.

    Args:
        days: files by day of arrival.
        fields: history columns to keep.

    Raises:
        GemlineError: as `read_histories`.
    """
    root = cache_of(days)
    if root is None:
        return read_histories(days, fields)
    manifest = {"layout": LAYOUT, "fields": list(fields), "days": {day: days[day].content_hash for day in sorted(days)}}
    folder = root / hashlib.sha256(json.dumps(manifest).encode()).hexdigest()[:32]
    found = _opened(folder)
    if found is not None:
        return found
    root.mkdir(parents=True, exist_ok=True)
    # processes of one run start together: the first one builds
    with FileLock(root / "lock"):
        return _opened(folder) or _built(root, folder, days, fields, manifest)


def cache_of(days: Mapping[str, DayFiles]) -> Path | None:
    """Where the mapped stores of these files belong; None when no home is around them that can be written to."""
    paths = [path for files in days.values() for path in files.paths]
    if not paths:
        return None
    table = Path(paths[0]).parent.parent
    home = table.parent.parent
    if (table.parent.name, table.name) != ("tables", "user_history") or not os.access(home, os.W_OK):
        return None
    return home / "cache" / "histories"


def carried_on(base: HistoryStore, dropped: np.ndarray, new: HistoryStore) -> HistoryStore:
    """A store without the events that arrived on some days and with those of others.

    Args:
        base: events so far.
        dropped: ordinals of the days to leave out.
        new: events of other days, with the same fields.

    Returns:
        What `HistoryStore.from_arrays` makes of all of them together.
    """
    columns, counts = _columns(base), np.diff(base.offsets)
    if len(dropped):
        keep = ~np.isin(base.day, dropped)
        columns = {name: part[keep] for name, part in columns.items()}
        counts = np.diff(np.append(0, np.cumsum(keep))[base.offsets])
    users = np.union1d(base.user_ids[counts > 0], new.user_ids)
    held = np.zeros(len(users), dtype=np.int64)
    held[np.searchsorted(users, base.user_ids[counts > 0])] = counts[counts > 0]
    starts = np.append(0, np.cumsum(held))
    more = np.diff(new.offsets)
    place = np.searchsorted(users, new.user_ids)
    low, high = np.repeat(starts[place], more), np.repeat(starts[place + 1], more)
    # after all that are not later; equal stamps are put in order below
    at = first_not_below(columns["event_us"], low, high, new.event_us + 1)
    tied = _tied_runs(columns["event_us"], low, at, new.event_us)
    added = _columns(new)
    columns = {name: np.insert(part, at, added[name]) for name, part in columns.items()}
    _order_ties(columns, *tied)
    held[place] += more
    return _store(users, np.append(0, np.cumsum(held)), columns, list(base.fields))


def _tied_runs(stamps: np.ndarray, low: np.ndarray, at: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Runs of equal user and stamp that hold old and new events: first position and length, after the insertion."""
    tied = np.flatnonzero((at > low) & (stamps[np.maximum(at - 1, 0)] == new)) if len(stamps) else np.zeros(0, np.int64)
    run, last = np.unique(at[tied][::-1], return_index=True)
    last = tied[len(tied) - 1 - last]
    first = first_not_below(stamps, low[last], run, new[last])
    begin = first + np.searchsorted(at, first, side="right")
    return begin, at[last] + last + 1 - begin


def _order_ties(columns: dict[str, np.ndarray], begin: np.ndarray, lengths: np.ndarray) -> None:
    """Order the events of each run, in place, by what decides between equal stamps."""
    where = expand(begin, lengths)
    if not len(where):
        return
    run = np.repeat(np.arange(len(begin)), lengths)
    numbers = range(sum(name.startswith("field") for name in columns))
    fields = [Column(columns[f"field-{number}"][where], columns[f"missing-{number}"][where]) for number in numbers]
    same = np.zeros(len(where), dtype=np.int64)
    order = where[event_order(run, same, columns["type"][where], fields, columns["day"][where])]
    for part in columns.values():
        part[where] = part[order]


def _columns(store: HistoryStore) -> dict[str, np.ndarray]:
    """What a store holds of each event, by file name."""
    own = {"event_us": store.event_us, "day": store.day.astype(np.int32, copy=False), "type": store.type}
    for number, column in enumerate(store.fields.values()):
        own |= {f"field-{number}": column.values, f"missing-{number}": column.missing}
    return own


def _store(
    users: np.ndarray, offsets: np.ndarray, columns: Mapping[str, np.ndarray], fields: Sequence[str]
) -> HistoryStore:
    return HistoryStore(
        user_ids=users,
        offsets=offsets,
        event_us=columns["event_us"],
        day=columns["day"],
        late=late_users(offsets, columns["day"]),
        type=columns["type"],
        fields={name: Column(columns[f"field-{n}"], columns[f"missing-{n}"]) for n, name in enumerate(fields)},
    )


# ---------------------------------------------------------------------------------------------- files


def _built(
    root: Path, folder: Path, days: Mapping[str, DayFiles], fields: Sequence[str], manifest: dict[str, Any]
) -> HistoryStore:
    base, known = _nearest(root, manifest)
    gone = [day for day, content in known.items() if manifest["days"].get(day) != content]
    fresh = {day: files for day, files in days.items() if known.get(day) != files.content_hash}
    store = read_histories(fresh, fields)
    if base is not None:
        store = carried_on(base, np.array([_ordinal(day) for day in gone], dtype=np.int64), store)
    if not len(store.event_us):
        return store  # no file of no bytes can be mapped
    staged = folder.with_suffix(".tmp")
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir()
    whole = {"user_ids": store.user_ids, "offsets": store.offsets, "late": store.late, **_columns(store)}
    for name, part in whole.items():
        np.save(staged / f"{name}.npy", part)
    (staged / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    staged.replace(folder)
    for old in _by_use(root)[KEPT:]:
        shutil.rmtree(old)  # a process that has it mapped keeps its pages
    opened = _opened(folder)
    assert opened is not None
    return opened


def _opened(folder: Path) -> MappedHistories | None:
    """A store that is there and whole."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        parts = {path.stem: _mapped(path) for path in folder.glob("*.npy") if not path.stem.startswith("rows-")}
        named = enumerate(manifest["fields"])
        found = MappedHistories(
            user_ids=parts["user_ids"],
            offsets=parts["offsets"],
            event_us=parts["event_us"],
            day=parts["day"],
            late=parts["late"],
            type=parts["type"],
            fields={name: Column(parts[f"field-{number}"], parts[f"missing-{number}"]) for number, name in named},
            folder=folder,
        )
        (folder / "manifest.json").touch()
    except (OSError, ValueError, KeyError):
        return None  # absent, or damaged: it is built again
    return found


def _nearest(root: Path, manifest: dict[str, Any]) -> tuple[MappedHistories | None, dict[str, str]]:
    """The store that shares most days with what is wanted, and its days; none where half of them are others."""
    wanted, best = manifest["days"], None
    known: dict[str, str] = {}
    for folder in _by_use(root):
        other = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        if (other["layout"], other["fields"]) != (LAYOUT, manifest["fields"]):
            continue
        shared = other["days"].items() & wanted.items()
        if len(shared) > len(known.items() & wanted.items()) and 2 * len(shared) >= len(wanted):
            best, known = folder, other["days"]
    store = None if best is None else _opened(best)
    return store, known if store is not None else {}


def _by_use(root: Path) -> list[Path]:
    manifests = sorted(root.glob("*/manifest.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    return [path.parent for path in manifests if path.parent.suffix != ".tmp"]


def _mapped(path: Path) -> np.ndarray:
    return np.asarray(np.load(path, mmap_mode="r"))


def _ordinal(day: str) -> int:
    return date.fromisoformat(day).toordinal()
