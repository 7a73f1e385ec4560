"""Features of requests, recounted: every event of a user or ad is looked at for every day or request.

Nothing is shared with `features.stats` or `features.transform.histories` but the meaning of their columns.
"""

from collections.abc import Sequence

import numpy as np

from benchmarks.oracle.log import LAG_US, NOTHING, TYPES, Log
from features.transform.hashing import string_id

DAY_US = 86_400_000_000
MONEY_UNITS = 10_000


class Statistics:
    """Statistics of all ids of one kind on all days.

    Attributes:
        values: feature -> float64 [ids, days], NaN where there is no row.
        there: bool [ids, days], whether there is a row.
    """

    def __init__(self, log: Log, kind: str, windows: Sequence[int]) -> None:
        """Recount `user` or `ad` statistics."""
        self.log, self.kind, self.windows = log, kind, tuple(windows)
        own = log.events
        self.order = np.argsort(own[kind], kind="stable")
        ids = int(own[kind].max()) + 1
        self.starts = np.searchsorted(own[kind][self.order], np.arange(ids + 1))
        days = len(log.edges) - 1
        self.there = np.zeros((ids, days), dtype=bool)
        other = ["requests", "value"] if kind == "user" else ["requests", "users"]
        names = [f"{kind}_{what}_{window}d" for what in ("events", *other) for window in windows]
        names += [f"{kind}_days_since_last", f"{kind}_span_days"]
        self.values = {name: np.full((ids, days), np.nan) for name in names}
        for ident in range(ids):
            self._count(ident, days)
        if kind == "ad":
            for window in windows:
                counts = self.values[f"ad_events_{window}d"]
                total = np.nansum(counts, axis=0)
                share = np.divide(counts, total, out=np.full_like(counts, np.nan), where=total > 0)
                self.values[f"ad_share_{window}d"] = share

    def _count(self, ident: int, days: int) -> None:
        mine = self.order[self.starts[ident] : self.starts[ident + 1]]
        own = {name: column[mine] for name, column in self.log.events.items()}
        day = self.log.day_of(own["us"])
        known = np.maximum(day, own["day"])
        for today in range(days):
            arrived = known <= today
            if not (arrived & (day > today - max(self.windows))).any():
                continue
            self.there[ident, today] = True
            for window in self.windows:
                inside = arrived & (day > today - window)
                for what, number in self._measures(own, inside).items():
                    self.values[f"{self.kind}_{what}_{window}d"][ident, today] = number
            end = self.log.edges[today + 1]
            self.values[f"{self.kind}_days_since_last"][ident, today] = (end - own["us"][arrived].max()) / DAY_US
            self.values[f"{self.kind}_span_days"][ident, today] = (end - own["us"][arrived].min()) / DAY_US

    def _measures(self, own: dict[str, np.ndarray], inside: np.ndarray) -> dict[str, float]:
        found = {"events": float(inside.sum()), "requests": float(len(set(own["request"][inside]) - {NOTHING}))}
        if self.kind == "user":
            return found | {"value": int(own["cents"][inside].sum()) * (MONEY_UNITS // 100) / MONEY_UNITS}
        return found | {"users": float(len(set(own["user"][inside])))}

    def as_of(self, ttl_us: int) -> dict[str, np.ndarray]:
        """Each request's statistics: of the newest day that was over, available and alive strictly before it."""
        return self._taken(self._newest(self.log.requests["us"] - 1, LAG_US, ttl_us))

    def at_or_before(self, ttl_us: int) -> dict[str, np.ndarray]:
        """What a join by event time, at or before the request, gives: as if all were available when it was over."""
        return self._taken(self._newest(self.log.requests["us"], 0, ttl_us))

    def _newest(self, us: np.ndarray, lag_us: int, ttl_us: int) -> np.ndarray:
        """Day of the row that each request sees, or `NOTHING`."""
        ids = self.log.requests[self.kind]
        known = (ids != NOTHING) & (ids < len(self.there))
        found = np.full(len(ids), NOTHING)
        for day, end in enumerate(self.log.edges[1:]):
            alive = (end + lag_us <= us) & (us - end <= ttl_us) & known
            found[alive & self.there[np.where(known, ids, 0), day]] = day
        return found

    def _taken(self, day: np.ndarray) -> dict[str, np.ndarray]:
        ids = np.where(day == NOTHING, 0, self.log.requests[self.kind])
        return {name: np.where(day == NOTHING, np.nan, table[ids, day]) for name, table in self.values.items()}


class Histories:
    """The events of each user in the order that decides which of them are the last."""

    def __init__(self, log: Log) -> None:
        """Sort once."""
        self.log, own = log, log.events
        ids = np.array([string_id(name) for name in TYPES])[own["type"]]
        # a missing brand comes first, and so does `NOTHING`
        self.order = np.lexsort((own["day"], own["brand"], own["ad"], ids, own["us"], own["user"]))
        self.user = own["user"][self.order]

    def of(self, user: int) -> np.ndarray:
        """Positions in the log of a user's events."""
        first, last = np.searchsorted(self.user, [user, user + 1])
        return self.order[first:last]

    def last(self, events: np.ndarray, requests: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        """What each request may see of these events, at most `length`: request and event of each pair, in order."""
        own, log = self.log.events, self.log
        before = own["us"][events] < log.requests["us"][requests][:, None]
        visible = before & (own["day"][events] < log.request_day[requests][:, None])
        from_newest = visible[:, ::-1].cumsum(axis=1)[:, ::-1]
        row, column = np.nonzero(visible & (from_newest <= length))
        return row, events[column]
