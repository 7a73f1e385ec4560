"""A fine histogram of scores by slice: AUC with a bound on its error, mid-ranks, and reliability bins, in one pass.

A score falls into the bin `floor(FINEST * logit)`, and only bins that hold rows exist. When they become more than
`MOST`, neighbours are put together in pairs, again and again down to `COARSEST` bins a unit of logit: memory follows
the spread of the scores and the number of slices, at most about 2.8e5 bins each, and not the number of rows.

Rows of a bin count as tied. AUC is therefore wrong by at most half the share of (positive, negative) pairs that fall
into one bin with different scores, which is computed from the bins and kept beside the AUC. For logits spread like a
normal with deviation s the bound is at most about 1 / (7 s COARSEST): 3.4e-5 at s = 1. Equal scores are real ties and
add nothing, so few rows, and slices with few distinct scores, are exact.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.areas import Floats, Integers, sorted_areas, sums_by

FINEST, COARSEST = 1 << 24, 1 << 12
"""Bins a unit of logit, while there are few of them and when there are many."""
MOST = 1 << 19
"""Bins of all slices together above which they are put together."""
RELIABILITY_BINS = 10
_SMALLEST = 1e-15
_BITS = 32
_OFFSET = 1 << (_BITS - 1)
_POSITIVE, _NEGATIVE, _PREDICTED, _ROWS, _POSITIVES, _MIXED = range(6)
_MOST_SHIFT = (FINEST // COARSEST).bit_length() - 1


def bins_of(score: Floats) -> Integers:
    """Bin [n] of each probability, ascending with it."""
    p = np.clip(score, _SMALLEST, 1 - _SMALLEST)
    return np.floor(FINEST * (np.log(p) - np.log1p(-p))).astype(np.int64) + _OFFSET


@dataclass(frozen=True)
class ReliabilityBin:
    """One of the bins of equal weight of a reliability plot.

    Attributes:
        predicted: weighted mean of the predictions.
        observed: weighted share of positives.
        rows: number of rows.
        positives: number of positive rows.
        weight: sum of weights, the rows of the full log.
    """

    predicted: float
    observed: float
    rows: int
    positives: int
    weight: float


class ScoreHistogram:
    """Sums by (slice, bin) of one prediction, for slices 0, 1, ... of at most 2 ** 16."""

    def __init__(self) -> None:
        """Start without rows."""
        self._shift = 0
        self._keys: Integers = np.empty(0, dtype=np.int64)
        self._columns: list[Floats] = [np.empty(0) for _ in range(_MIXED + 1)]
        self._scores: Floats = np.empty(0)
        self._waiting: list[tuple[Integers, list[Floats], Floats]] = []

    def add(self, places: NDArray[np.uint16], bins: Integers, score: Floats, label: Floats, weight: Floats) -> None:
        """Add rows that are sorted by score.

        Args:
            places: [n] slice of each row.
            bins: [n] from `bins_of`.
            score: [n] ascending probabilities.
            label: [n] 0 or 1.
            weight: [n] not negative.
        """
        order = np.argsort(places, kind="stable")
        y, w, p = label[order], weight[order], score[order]
        positive = w * y
        columns = [positive, w - positive, w * p, np.ones_like(y), y, np.zeros_like(y)]
        self._waiting.append(_reduced(_keys_of(places[order], bins[order], self._shift), columns, p))
        if sum(len(keys) for keys, *_ in self._waiting) > max(MOST, len(self._keys)):
            self._merge()

    def _merge(self) -> None:
        runs = [(self._keys, self._columns, self._scores), *self._waiting]
        self._waiting = []
        keys = np.concatenate([run for run, *_ in runs])
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        columns = [np.concatenate(parts)[order] for parts in zip(*(columns for _, columns, _ in runs), strict=True)]
        while self._shift < _MOST_SHIFT and _distinct(keys >> self._shift) > MOST:
            self._shift += 1
        scores = np.concatenate([scores for *_, scores in runs])[order]
        self._keys, self._columns, self._scores = _reduced(keys >> self._shift << self._shift, columns, scores)

    def finish(self, slices: int) -> "Ranks":
        """What the rows say of slices 0 ... `slices` - 1."""
        self._merge()
        return Ranks(self._keys, self._columns, self._shift, slices)


class Ranks:
    """AUC, mid-ranks and reliability by slice, from a finished histogram.

    Attributes:
        auc: [slices], NaN where a class has no weight.
        error: [slices] how far each may be from the exact AUC.
    """

    def __init__(self, keys: Integers, columns: list[Floats], shift: int, slices: int) -> None:
        """Rank the bins of each slice."""
        self._keys, self._columns, self._shift = keys, columns, shift
        self.auc, self.error = np.full(slices, np.nan), np.zeros(slices)
        place = keys >> _BITS
        self._ends = np.searchsorted(place, np.arange(slices + 1))
        positive, negative = columns[_POSITIVE], columns[_NEGATIVE]
        if len(keys):
            found = sorted_areas(place, keys, positive, negative)
            self.auc[found.group] = found.area
        positives, negatives = (sums_by(place, column, slices) for column in (positive, negative))
        pairs = positives * negatives
        mixed = np.where(columns[_MIXED] > 0, positive * negative, 0.0)
        np.divide(sums_by(place, mixed, slices), 2 * pairs, out=self.error, where=pairs > 0)
        self._positives_below = self._mid_ranks(positive, positives)
        self._negatives_below = self._mid_ranks(negative, negatives)

    def _mid_ranks(self, column: Floats, totals: Floats) -> Floats:
        """Share of a slice's class below each bin, half of the bin included; 0 where the class has no weight."""
        below = np.cumsum(column) - column
        start = self._ends[:-1]
        sizes = np.diff(self._ends)
        base = np.repeat(below[np.minimum(start, max(len(below) - 1, 0))], sizes) if len(below) else below
        total = np.repeat(totals, sizes)
        return np.divide(below - base + column / 2, total, out=np.zeros_like(column), where=total > 0)

    def shares_below(self, places: NDArray[np.uint16], bins: Integers) -> tuple[Floats, Floats]:
        """Share of the slice's positives, and of its negatives, that score below each row; ties count half: [n], [n].

        Args:
            places: [n] slice of each row.
            bins: [n] ascending, bins that were added.
        """
        # an ascending search stays in the cache
        order = np.argsort(places, kind="stable")
        found = np.empty(len(places), dtype=np.int64)
        found[order] = np.searchsorted(self._keys, _keys_of(places[order], bins[order], self._shift))
        return self._positives_below[found], self._negatives_below[found]

    def reliability(self, place: int) -> list[ReliabilityBin]:
        """At most `RELIABILITY_BINS` bins of about equal weight; fewer where many rows have one score."""
        start, end = self._ends[place], self._ends[place + 1]
        columns = [column[start:end] for column in self._columns]
        weight = columns[_POSITIVE] + columns[_NEGATIVE]
        total = weight.sum()
        if not total > 0:
            return []
        middle = (np.cumsum(weight) - weight / 2) / total
        cut = np.minimum((middle * RELIABILITY_BINS).astype(np.int64), RELIABILITY_BINS - 1)
        sums = [sums_by(cut, column, RELIABILITY_BINS) for column in (*columns[:5], weight)]
        return [
            ReliabilityBin(float(predicted / mass), float(positive / mass), int(rows), int(positives), float(mass))
            for positive, _, predicted, rows, positives, mass in zip(*sums, strict=True)
            if mass > 0
        ]


def _keys_of(places: NDArray[np.uint16], bins: Integers, shift: int) -> Integers:
    return ((places.astype(np.int64) << _BITS) | bins) >> shift << shift


def _distinct(sorted_keys: Integers) -> int:
    return int(np.count_nonzero(sorted_keys[1:] != sorted_keys[:-1])) + 1


def _reduced(keys: Integers, columns: list[Floats], scores: Floats) -> tuple[Integers, list[Floats], Floats]:
    """One entry a key, of sorted keys: sums, one of its scores, and whether (`_MIXED`) it has others."""
    if len(keys) == 0:
        return keys, columns, scores
    start = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    if len(start) == len(keys):
        return keys, columns, scores
    run = np.repeat(np.arange(len(start)), np.diff(start, append=len(keys)))
    others = columns[_MIXED] + (scores != scores[start][run])
    return keys[start], [sums_by(run, column) for column in (*columns[:_MIXED], others)], scores[start]
