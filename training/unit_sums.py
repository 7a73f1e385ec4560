"""Sums by slice of everything that metrics are ratios of, on the rows and on every resample of their units.

A part of the rows holds whole units, hence whole users and requests, so AUC within a user or request is exact there.
AUC of a slice is linear to first order in how often units are taken: a positive brings the share of negatives below it,
a negative the share of positives above it (Hájek projection; the structural components of DeLong et al. 1988, summed by
unit as by Obuchowski 1997), so its resamples are sums, too, and nothing is sorted again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.errors import GemlineError
from training.bootstrap import UNITS, draws
from training.metrics import EPSILON, Floats, Integers, sorted_areas
from training.score_histogram import Ranks, bins_of
from training.scored_rows import FAULT_OF, codes_within, known
from training.spill import Part

POSITIVE, NEGATIVE, LOSS, PREDICTED = range(4)
VALUE_POSITIVE, VALUE_NEGATIVE, VALUE_LOSS, VALUE_PREDICTED = range(4, 8)
ABOVE_NEGATIVES, BELOW_POSITIVES = 8, 9
USER_AREA, USER_WEIGHT, REQUEST_AREA, REQUEST_WEIGHT = range(10, 14)
COLUMNS = 14
_GROUPS = {"user_id": (USER_AREA, USER_WEIGHT), "request_id": (REQUEST_AREA, REQUEST_WEIGHT)}
_CELLS = 1 << 20
"""Pairs of slice and unit whose sums are made at a time."""


@dataclass
class SliceSums:
    """Sums of one dimension's slices.

    Attributes:
        total: [sides, COLUMNS, slices] on the rows.
        resampled: [sides, COLUMNS, slices, resamples] on each resample.
        units: [slices] distinct units.
        rows: [slices].
        positives: [slices] rows with label 1.
        faults: [slices, codes of FAULT_OF] rows by fault.
        mixed: name of an id -> [slices] groups with both classes.
        skipped: name of an id -> [slices] groups without.
        days: [slices, days] whether a slice has rows of a day.
    """

    total: Floats
    resampled: Floats
    units: Integers
    rows: Integers
    positives: Integers
    faults: Integers
    mixed: dict[str, Integers]
    skipped: dict[str, Integers]
    days: NDArray[np.bool_]

    @classmethod
    def empty(cls, sides: int, slices: int, resamples: int, days: int) -> "SliceSums":
        """Nothing yet."""

        def counts() -> Integers:
            return np.zeros(slices, dtype=np.int64)

        return cls(
            total=np.zeros((sides, COLUMNS, slices)),
            resampled=np.zeros((sides, COLUMNS, slices, resamples)),
            units=counts(),
            rows=counts(),
            positives=counts(),
            faults=np.zeros((slices, len(FAULT_OF)), dtype=np.int64),
            mixed={name: counts() for name in _GROUPS},
            skipped={name: counts() for name in _GROUPS},
            days=np.zeros((slices, days), dtype=bool),
        )


def most_units(slices: int) -> int:
    """Units of a part, so that its sums stay small however many slices there are."""
    return max(1, min(UNITS, _CELLS // max(slices, 1)))


class Adder:
    """Adds parts to the sums of all dimensions."""

    def __init__(self, ranks: Sequence[Sequence[Ranks]], sizes: Sequence[int], days: int, resamples: int, seed: int):
        """Start without rows.

        Args:
            ranks: by dimension, by side.
            sizes: slices of each dimension.
            days: distinct days.
            resamples: of the units.
            seed: of the resamples.
        """
        self._ranks, self._draws = ranks, draws(resamples, seed)
        self.sums = [
            SliceSums.empty(len(sides), size, resamples, days) for sides, size in zip(ranks, sizes, strict=True)
        ]

    def add(self, part: Part) -> None:
        """Add all rows of some units.

        Raises:
            GemlineError: a pair of impression and task is there twice.
        """
        rows = part.rows
        _refuse_duplicates(rows)
        # most units of a small log are empty
        present, units = np.unique(part.units, return_inverse=True)
        sides = rows["prediction"].shape[1]
        plain = [_row_columns(rows, side) for side in range(sides)]
        bins = [bins_of(np.ascontiguousarray(rows["prediction"][:, side])) for side in range(sides)]
        # sorted once a group and side, for all dimensions
        sorts = {name: [_sorted_by(rows, name, side) for side in range(sides)] for name in _GROUPS}
        width = len(present)
        for dimension, sums in enumerate(self.sums):
            places = np.ascontiguousarray(rows["slice"][:, dimension])
            cells = places.astype(np.int64) * width + units
            found = np.zeros((sides, COLUMNS, len(sums.rows) * width))
            for side in range(sides):
                for column, values in plain[side].items():
                    found[side, column] = np.bincount(cells, values, minlength=found.shape[2])
                positives, negatives = self._ranks[dimension][side].shares_below(places, bins[side])
                won = negatives * plain[side][POSITIVE], (1 - positives) * plain[side][NEGATIVE]
                for column, values in zip((ABOVE_NEGATIVES, BELOW_POSITIVES), won, strict=True):
                    found[side, column] = np.bincount(cells, values, minlength=found.shape[2])
                for name, by_side in sorts.items():
                    _add_areas(found[side], sums, name, by_side[side], places, units, plain[side], width, side == 0)
            self._take(sums, found.reshape(sides, COLUMNS, len(sums.rows), width), present)
            _count(sums, rows, places, cells, width)

    def _take(self, sums: SliceSums, found: Floats, present: Integers) -> None:
        sums.total += found.sum(axis=-1)
        sums.resampled += found @ self._draws[:, present].T


@dataclass(frozen=True)
class _Sorted:
    """Rows that have an id, sorted by it and then by one prediction.

    Attributes:
        rows: [m] their places.
        group: [m] code of the id, ascending.
        score: [m] the prediction.
        groups: number of distinct ids.
    """

    rows: Integers
    group: Integers
    score: Floats
    groups: int


def _sorted_by(rows: NDArray[np.void], name: str, side: int) -> _Sorted:
    have = np.flatnonzero(known(rows, name))
    ids, score = rows[name][have], rows["prediction"][have, side]
    order = np.lexsort((score, ids))
    group = codes_within(ids[order]) if len(order) else order
    return _Sorted(have[order], group, score[order], int(group[-1]) + 1 if len(group) else 0)


def _add_areas(
    found: Floats,
    sums: SliceSums,
    name: str,
    by: _Sorted,
    places: NDArray[np.uint16],
    units: Integers,
    plain: dict[int, Floats],
    width: int,
    counted: bool,
) -> None:
    """AUC within each (slice, user or request), times its weight, to the cell of its slice and unit."""
    if by.groups == 0:
        return
    order = np.argsort(places[by.rows], kind="stable")
    at = by.rows[order]
    group = places[at].astype(np.int64) * by.groups + by.group[order]
    areas = sorted_areas(group, by.score[order], plain[POSITIVE][at], plain[NEGATIVE][at])
    unit_of = np.zeros(by.groups, dtype=np.int64)
    unit_of[by.group] = units[by.rows]
    place, inside = np.divmod(areas.group, by.groups)
    mixed = np.isfinite(areas.area)
    weight = np.where(mixed, areas.positive + areas.negative, 0.0)
    area = np.where(mixed, areas.area, 0.0) * weight
    cell = place * width + unit_of[inside]
    for column, values in zip(_GROUPS[name], (area, weight), strict=True):
        found[column] += np.bincount(cell, values, minlength=found.shape[1])
    if counted:
        sums.mixed[name] += np.bincount(place[mixed], minlength=len(sums.rows))
        sums.skipped[name] += np.bincount(place[~mixed], minlength=len(sums.rows))


def _row_columns(rows: NDArray[np.void], side: int) -> dict[int, Floats]:
    """What each row adds to the sums that know no other row: column -> [n]."""
    label, weight, value = rows["label"] == 1, rows["weight"], rows["value"]
    prediction = rows["prediction"][:, side]
    p = np.clip(prediction, EPSILON, 1 - EPSILON)
    loss = -np.where(label, np.log(p), np.log1p(-p))
    found: dict[int, Floats] = {}
    for columns, w in (
        ((POSITIVE, NEGATIVE, LOSS, PREDICTED), np.ascontiguousarray(weight)),
        ((VALUE_POSITIVE, VALUE_NEGATIVE, VALUE_LOSS, VALUE_PREDICTED), weight * value),
    ):
        positive = np.where(label, w, 0.0)
        found |= dict(zip(columns, (positive, w - positive, w * loss, w * prediction), strict=True))
    return found


def _count(sums: SliceSums, rows: NDArray[np.void], places: NDArray[np.uint16], cells: Integers, width: int) -> None:
    size = len(sums.rows)
    sums.units += (np.bincount(cells, minlength=size * width).reshape(size, width) > 0).sum(axis=1)
    sums.rows += np.bincount(places, minlength=size)
    sums.positives += np.bincount(places[rows["label"] == 1], minlength=size)
    for table, codes in ((sums.faults, rows["fault"]), (sums.days, rows["ds"])):
        pairs = places.astype(np.int64) * table.shape[1] + codes
        counted = np.bincount(pairs, minlength=table.size).reshape(table.shape)
        table += counted.astype(table.dtype)


def _refuse_duplicates(rows: NDArray[np.void]) -> None:
    have = rows[known(rows, "impression_id")]
    order = np.argsort(have["impression_id"])
    if len(order) == 0:
        return
    rest = have["slice"][order, 0].astype(np.int64) << 16 | have["ds"][order]
    names, inside = np.unique(rest, return_inverse=True)
    pairs = np.sort(codes_within(have["impression_id"][order]) * len(names) + inside)
    same = pairs[1:][pairs[1:] == pairs[:-1]]
    if len(same):
        example = int(np.unique(have["impression_id"])[same[0] // len(names)])
        raise GemlineError(
            f"{len(same)} evaluation rows are there twice, such as one of impression {example}; "
            "choose one prediction a (ds, impression_id, task), for instance by digest"
        )
