"""Behaviour histories: a compact store of all users' events, and slices of it as seen by one request each.

Long histories are stored once. An example carries no sequence; it is cut out here by binary search, so its
length is an argument. All candidates of one request see the same history, hence slices are made per distinct
request and examples point to them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from features.transform.columns import Column, ColumnLike, as_column
from features.transform.hashing import rows_of, string_id, table_salt
from features.transform.schema import FeatureSchema


@dataclass(frozen=True)
class HistoryStore:
    """Events of U users, E in all, by user and then by time.

    Attributes:
        user_ids: int64 [U], sorted.
        offsets: int64 [U + 1]; events of user u are offsets[u] ... offsets[u + 1] - 1.
        event_us: int64 [E], UTC microseconds, ascending within a user.
        day: int64 or int32 [E], ordinal of the local day on which the event arrived.
        late: bool [U]; some event of the user arrived after a later event had.
        type: int64 [E], ids of event type names.
        fields: name -> (int64 [E], missing [E]).
    """

    user_ids: np.ndarray
    offsets: np.ndarray
    event_us: np.ndarray
    day: np.ndarray
    late: np.ndarray
    type: np.ndarray
    fields: dict[str, Column]
    _encoded: dict[str, dict[str, np.ndarray]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_arrays(
        cls,
        user_id: np.ndarray,
        day: np.ndarray,
        event_us: np.ndarray,
        type: np.ndarray,
        fields: Mapping[str, ColumnLike],
    ) -> "HistoryStore":
        """Sort flat, unordered event columns (each [E]) into a store.

        Ties in time are broken by type and fields, missing first, as `features.history` sorts them, so that
        a slice keeps the same events whether it is cut here or was cut for the feature store.
        """
        columns = {name: as_column(data) for name, data in fields.items()}
        order = event_order(user_id, event_us, type, list(columns.values()), day)
        users, starts = np.unique(user_id[order], return_index=True)
        offsets = np.append(starts, len(order)).astype(np.int64)
        days = np.asarray(day, dtype=np.int64)[order]
        return cls(
            user_ids=users.astype(np.int64),
            offsets=offsets,
            event_us=np.asarray(event_us, dtype=np.int64)[order],
            day=days,
            late=late_users(offsets, days),
            type=np.asarray(type, dtype=np.int64)[order],
            fields={name: Column(column.values[order], column.missing[order]) for name, column in columns.items()},
        )

    def encoded(self, schema: FeatureSchema) -> dict[str, np.ndarray]:
        """Table rows of every history field, hashed once per store.

        Name -> int64 [E]; fields not stored are missing.
        """
        key = schema.to_json()
        if key not in self._encoded:
            self._encoded[key] = {
                entry.name: self._field_rows(entry.name, entry.table, schema.tables[entry.table])
                for entry in schema.history.fields
            }
        return self._encoded[key]

    def _field_rows(self, name: str, table: str, rows: int) -> np.ndarray:
        if name not in self.fields:
            return np.zeros(len(self.event_us), dtype=np.int64)
        column = self.fields[name]
        ids = np.where(column.missing, 0, column.values).astype(np.int64)
        return rows_of(ids, column.missing, rows, table_salt(table))


@dataclass(frozen=True)
class HistoryCut:
    """How much of a history is read.

    Attributes:
        length: events kept.
        quotas: newest events of a type that are kept whatever else fills the length, so that frequent impressions
            cannot evict rare conversions; by type, at most `length` together. The rest goes to the newest others.
    """

    length: int
    quotas: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Histories:
    """Slices of R distinct requests, and which of them each of B examples sees; L events in all.

    Attributes:
        row: int64 [B], index into the R slices.
        lengths: int64 [R].
        age_us: int64 [L], microseconds from event to request, above 0, descending within a slice.
        type: int64 [L]; 0 unknown, 1 + index in `schema.event_types`.
        fields: name -> int64 [L] table rows.
    """

    row: np.ndarray
    lengths: np.ndarray
    age_us: np.ndarray
    type: np.ndarray
    fields: dict[str, np.ndarray]


def event_order(
    user: np.ndarray, event_us: np.ndarray, type: np.ndarray, fields: Sequence[Column], day: np.ndarray
) -> np.ndarray:
    """Positions of events in the order of a store: by user, time, type, fields with missing first, and arrival."""
    ties = [key for column in fields for key in (~column.missing, _known(column))]
    order: np.ndarray = np.lexsort((day, *reversed(ties), type, event_us, user))
    return order


def late_users(offsets: np.ndarray, day: np.ndarray) -> np.ndarray:
    """Which users, bool [U], have an event that arrived after a later one had."""
    backwards = np.flatnonzero(day[1:] < day[:-1])
    owner = np.searchsorted(offsets, backwards, side="right") - 1
    late = np.zeros(len(offsets) - 1, dtype=bool)
    late[owner[backwards + 1 < offsets[owner + 1]]] = True
    return late


def _known(column: Column) -> np.ndarray:
    return np.where(column.missing, 0, column.values)


def type_index(schema: FeatureSchema, type_ids: np.ndarray) -> np.ndarray:
    """Index of event types.

    0 for one that the schema does not know, else 1 + its place in `schema.event_types`.
    """
    out = np.zeros(len(type_ids), dtype=np.int64)
    for index, name in enumerate(schema.event_types):
        out[type_ids == string_id(name)] = index + 1
    return out


def first_not_below(values: np.ndarray, low: np.ndarray, high: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Binary search in many sorted segments at once.

    First index in [low, high) whose value >= target, else high.
    """
    low, high = low.copy(), high.copy()
    while np.any(low < high):
        open_ = low < high
        middle = np.where(open_, (low + high) // 2, 0)
        below = open_ & (values[middle] < target)
        low = np.where(below, middle + 1, low)
        high = np.where(open_ & ~below, middle, high)
    return low


def distinct(keys: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Index of one representative of each distinct key, and for every row the number of its key."""
    order = np.lexsort(keys[::-1])
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(new) - 1
    return order[new], number


def requests_of(users: Column, day: np.ndarray, request_us: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Index of one example of each request, and for every example the number of its request.

    A request is a user at an instant, known or not: what belongs to it is taken from any of its examples.
    """
    ids = np.where(users.missing, 0, users.values)
    keys = (ids, users.missing, day, request_us)
    return distinct(tuple(np.asarray(key).astype(np.int64) for key in keys))


def expand(begin: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Concatenated ranges begin[i] ... begin[i] + lengths[i] - 1."""
    ends = np.cumsum(lengths)
    shift = np.repeat(begin - (ends - lengths), lengths)
    ranges: np.ndarray = np.arange(ends[-1] if len(ends) else 0, dtype=np.int64) + shift
    return ranges


def slice_histories(
    schema: FeatureSchema,
    store: HistoryStore,
    user_id: ColumnLike,
    day: np.ndarray,
    request_us: np.ndarray,
    cut: HistoryCut | None = None,
) -> Histories:
    """What each example may know of its user: events available by then and stamped before its request.

    With `as_of: day_start` an event is available that arrived on an earlier day; with `request` one of the day itself
    too, since the request carries those.

    Args:
        schema: fields, tables and event types.
        store: all events that may be needed.
        user_id: ids [B]; missing or unknown users have no history.
        day: ordinals [B] of the examples' local days.
        request_us: int64 [B], UTC microseconds; an event must be stamped strictly before.
        cut: which of them are kept; the last `schema.history.length` by default.

    Returns:
        Slices per distinct (user, day, request), ascending in time.
    """
    cut = HistoryCut(schema.history.length) if cut is None else cut
    users = as_column(user_id)
    ids = np.where(users.missing, 0, users.values).astype(np.int64)
    user = np.searchsorted(store.user_ids, ids)
    known = ~users.missing & (user < len(store.user_ids))
    known[known] = store.user_ids[user[known]] == ids[known]
    first, row = requests_of(users, day, request_us)
    user = np.where(known, user, -1)
    until = day[first] + (schema.history.as_of == "request")
    event, counts = _select(store, user[first], until, request_us[first], cut)
    ages = np.repeat(request_us[first], counts) - store.event_us[event]
    fields = {name: rows[event].astype(np.int64, copy=False) for name, rows in store.encoded(schema).items()}
    return Histories(row, counts, ages, type_index(schema, store.type[event]), fields)


def _select(
    store: HistoryStore, user: np.ndarray, until: np.ndarray, request_us: np.ndarray, cut: HistoryCut
) -> tuple[np.ndarray, np.ndarray]:
    """Event indices of each request's slice, concatenated, and their counts (user -1: none).

    An event must have arrived on a day before `until`.
    """
    if not len(store.user_ids):
        return np.zeros(0, dtype=np.int64), np.zeros(len(user), dtype=np.int64)
    none, user = user < 0, np.maximum(user, 0)
    low, high = store.offsets[user], store.offsets[user + 1]
    end = first_not_below(store.event_us, low, high, request_us)
    late = store.late[user]
    # Arrival days ascend with time unless something arrived late; only then, or when a type's newest events may lie
    # far back, must the whole past be looked through.
    end = np.where(late, end, first_not_below(store.day, low, np.where(late, low, end), until))
    begin = np.where(late | bool(cut.quotas), low, np.maximum(low, end - cut.length))
    end = np.where(none, begin, end)
    event = expand(begin, end - begin)
    owner = np.repeat(np.arange(len(user)), end - begin)
    available = store.day[event] < until[owner]
    event, owner = event[available], owner[available]
    kept = _kept(owner, store.type[event], len(user), cut)
    return event[kept], np.bincount(owner[kept], minlength=len(user)).astype(np.int64)


def _kept(owner: np.ndarray, types: np.ndarray, owners: int, cut: HistoryCut) -> np.ndarray:
    """Which events (sorted by owner and time) are kept: bool [E]."""
    reserved = np.zeros(len(owner), dtype=bool)
    for name, quota in cut.quotas.items():
        mine = np.flatnonzero(types == string_id(name))
        reserved[mine] = _from_newest(owner[mine], owners) <= quota
    left = cut.length - np.bincount(owner[reserved], minlength=owners)
    others = np.flatnonzero(~reserved)
    kept = reserved
    kept[others] = _from_newest(owner[others], owners) <= left[owner[others]]
    return kept


def _from_newest(owner: np.ndarray, owners: int) -> np.ndarray:
    """Place of each event counted from its owner's newest, 1 for that one."""
    counts = np.bincount(owner, minlength=owners)
    place: np.ndarray = np.repeat(np.cumsum(counts), counts) - np.arange(len(owner))
    return place
