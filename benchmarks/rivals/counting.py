"""What a log says about a key before a day: how often, how recently, how regularly, for millions of rows at once.

Events are sorted by (key, day) once; the state of a key before a day is then a position found by binary
search, and every count is a difference of two positions.
"""

from dataclasses import dataclass

import numpy as np

from training.metrics import Floats, Integers

DAYS = 1 << 13
"""More than the span of days of any log, so that (key, day) fits in one integer."""
FAR = 3650.0
"""An age or interval in days for what never happened."""


@dataclass(frozen=True)
class Log:
    """Events of keys in order of (key, day), E in all.

    Attributes:
        keys: distinct keys, sorted, each a row of int64s [K, parts].
        at: int64 [E], (number of the key) * DAYS + day, ascending.
        starts: int64 [K + 1], places of the keys' events.
        first_day: the day that counts as 0.
        days_before: int64 [E + 1], how many first events of a (key, day) there are before each place.
        value: float64 [E + 1], running sum of the events' amounts.
    """

    keys: Integers
    at: Integers
    starts: Integers
    first_day: int
    days_before: Integers
    value: Floats

    @classmethod
    def of(cls, parts: tuple[np.ndarray, ...], day: np.ndarray, value: np.ndarray | None = None) -> "Log":
        """Sort events.

        Args:
            parts: columns [E] that make a key together, for example user and category.
            day: ordinals [E].
            value: amounts [E]; 0 when omitted.
        """
        first_day = int(day.min()) if len(day) else 0
        order = np.lexsort((day, *parts[::-1]))
        columns = np.stack([part[order].astype(np.int64) for part in parts], axis=1)
        new = np.ones(len(order), dtype=bool)
        new[1:] = (np.diff(columns, axis=0) != 0).any(axis=1)
        at = (np.cumsum(new) - 1) * DAYS + (day[order] - first_day)
        fresh = np.ones(len(order), dtype=bool)
        fresh[1:] = np.diff(at) != 0
        amounts = np.zeros(len(order)) if value is None else value[order].astype(np.float64)
        return cls(
            keys=columns[new],
            at=at,
            starts=np.append(np.flatnonzero(new), len(order)),
            first_day=first_day,
            days_before=np.concatenate(([0], np.cumsum(fresh))),
            value=np.concatenate(([0.0], np.cumsum(amounts))),
        )

    def before(self, parts: tuple[np.ndarray, ...], day: np.ndarray) -> "Before":
        """The state of the keys [N] as of the start of the days [N]: events of earlier days only."""
        number = _find(self.keys, np.stack([part.astype(np.int64) for part in parts], axis=1))
        known = number >= 0
        number = np.where(known, number, 0)
        start = np.where(known, self.starts[number], 0)
        return Before(self, number, known, start, day - self.first_day)


@dataclass(frozen=True)
class Before:
    """States of N keys before N days; see `Log.before`."""

    log: Log
    number: Integers
    known: np.ndarray
    start: Integers
    day: Integers

    def _place(self, days_back: int | None) -> Integers:
        """Place of the first event on or after `day - days_back`; the key's own first for None."""
        if days_back is None:
            return self.start
        wanted = self.number * DAYS + np.clip(self.day - days_back, 0, DAYS - 1)
        return np.where(self.known, np.searchsorted(self.log.at, wanted, side="left"), 0)

    def count(self, days_back: int | None = None) -> Floats:
        """Events of the last `days_back` days, or all."""
        return (self._place(0) - self._place(days_back)).astype(np.float64)

    def total(self, days_back: int | None = None) -> Floats:
        """Sum of the amounts of these events."""
        return self.log.value[self._place(0)] - self.log.value[self._place(days_back)]

    def days(self, days_back: int | None = None) -> Floats:
        """On how many distinct days these events fell."""
        before = self.log.days_before
        return (before[self._place(0)] - before[self._place(days_back)]).astype(np.float64)

    def _age_of(self, place: Integers) -> Floats:
        happened = self._place(0) > self.start
        day = self.log.at[np.clip(place, 0, max(len(self.log.at) - 1, 0))] % DAYS if len(self.log.at) else self.day
        return np.where(happened, self.day - day, FAR).astype(np.float64)

    def recency(self) -> Floats:
        """Days since the newest event; FAR when there is none."""
        return self._age_of(self._place(0) - 1)

    def span(self) -> Floats:
        """Days since the oldest event; FAR when there is none."""
        return self._age_of(self.start)

    def interval(self) -> Floats:
        """Mean days between the days with events; FAR with fewer than two."""
        days = self.days()
        return np.where(days > 1, (self.span() - self.recency()) / np.maximum(days - 1, 1), FAR)

    def due(self) -> Floats:
        """Days since the newest event over the mean interval: 1 when the next is due; -1 when unknown."""
        interval = self.interval()
        return np.where(interval < FAR, self.recency() / np.maximum(interval, 1.0), -1.0)


def _find(keys: Integers, wanted: Integers) -> Integers:
    """Place [N] of each wanted row [N, parts] among sorted distinct rows [K, parts]; -1 where it is not."""
    number = np.zeros(len(wanted), dtype=np.int64)
    own = np.zeros(len(keys), dtype=np.int64)
    for part in range(keys.shape[1]):
        values = np.unique(keys[:, part])
        place = np.searchsorted(values, wanted[:, part])
        held = place < len(values)
        held[held] = values[place[held]] == wanted[held, part]
        number = np.where(held & (number >= 0), number * (len(values) + 1) + place, -1)
        own = own * (len(values) + 1) + np.searchsorted(values, keys[:, part])
    found = np.searchsorted(own, number)
    held = (number >= 0) & (found < len(own))
    held[held] = own[found[held]] == number[held]
    return np.where(held, found, -1)
