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
from training.areas import Floats, Integers, sorted_areas
from training.bootstrap import UNITS, draws
from training.metrics import EPSILON
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
        _refuse_duplicates(part.rows)
        # most units of a small log are empty
        present, units = np.unique(part.units, return_inverse=True)
        sides = [_Side.of(part.rows, units, side) for side in range(part.rows["prediction"].shape[1])]
        for dimension, sums in enumerate(self.sums):
            cells = len(sums.rows) * len(present)
            found = np.zeros((len(sides), COLUMNS, cells))
            for side, by_column, ranks in zip(sides, found, self._ranks[dimension], strict=True):
                places = np.ascontiguousarray(side.places[:, dimension])
                cell = places.astype(np.int64) * len(present) + side.units
                positives, negatives = ranks.shares_below(places, side.bins)
                plain = side.columns
                won = {ABOVE_NEGATIVES: negatives * plain[POSITIVE], BELOW_POSITIVES: (1 - positives) * plain[NEGATIVE]}
                for column, values in {**plain, **won}.items():
                    by_column[column] = np.bincount(cell, values, minlength=cells)
                for name, by in side.groups.items():
                    if by is not None:
                        _add_areas(by_column, sums, name, by, places, len(present), counted=side is sides[0])
            self._take(sums, found.reshape(len(sides), COLUMNS, len(sums.rows), len(present)), present)
            _count(sums, part.rows, part.rows["slice"][:, dimension], units, len(present))

    def _take(self, sums: SliceSums, found: Floats, present: Integers) -> None:
        sums.total += found.sum(axis=-1)
        sums.resampled += found @ self._draws[:, present].T


@dataclass(frozen=True)
class _Groups:
    """Rows that have an id, sorted by it and then by the prediction.

    Attributes:
        rows: [m] their places among the rows of the part.
        code: [m] code of the id, ascending.
        rank: [m] of the prediction.
        positive: [m] weight of a row if it is positive, else 0.
        negative: [m] weight of a row if it is negative, else 0.
        unit: [ids] code of the unit of each id.
    """

    rows: Integers
    code: Integers
    rank: Integers
    positive: Floats
    negative: Floats
    unit: Integers


@dataclass(frozen=True)
class _Side:
    """One prediction of the rows of a part, which are sorted by it once for all dimensions.

    Attributes:
        places: [n, dimensions] slices.
        units: [n] code of the unit.
        bins: [n] of the histogram, ascending.
        columns: column -> [n] what each row adds to sums that know no other row.
        groups: name of an id -> its groups.
    """

    places: NDArray[np.uint16]
    units: Integers
    bins: Integers
    columns: dict[int, Floats]
    groups: dict[str, _Groups | None]

    @classmethod
    def of(cls, rows: NDArray[np.void], units: Integers, side: int) -> "_Side":
        order = np.argsort(rows["prediction"][:, side])
        rows = rows[order]
        score = np.ascontiguousarray(rows["prediction"][:, side])
        rank, columns = codes_within(score), _row_columns(rows, score)
        groups = {name: _groups(rows, name, rank, columns, units[order]) for name in _GROUPS}
        return cls(rows["slice"], units[order], bins_of(score), columns, groups)


def _groups(
    rows: NDArray[np.void], name: str, rank: Integers, columns: dict[int, Floats], units: Integers
) -> _Groups | None:
    """Groups of one id; None when no row has it. Ranks ascend."""
    have = np.flatnonzero(known(rows, name))
    if len(have) == 0:
        return None
    distinct, code = np.unique(rows[name][have], return_inverse=True)
    order = np.argsort(code * (int(rank[-1]) + 1) + rank[have])
    have, code = have[order], code[order]
    unit = np.zeros(len(distinct), dtype=np.int64)
    unit[code] = units[have]
    return _Groups(have, code, rank[have], columns[POSITIVE][have], columns[NEGATIVE][have], unit)


def _add_areas(
    found: Floats, sums: SliceSums, name: str, by: _Groups, places: NDArray[np.uint16], width: int, counted: bool
) -> None:
    """AUC within each (slice, user or request), times its weight, to the cell of its slice and unit."""
    place, size = places[by.rows], len(by.unit)
    order = np.argsort(place, kind="stable")
    group = place[order].astype(np.int64) * size + by.code[order]
    areas = sorted_areas(group, by.rank[order], by.positive[order], by.negative[order])
    slices = areas.group // size
    mixed = np.isfinite(areas.area)
    weight = np.where(mixed, areas.positive + areas.negative, 0.0)
    area = np.where(mixed, areas.area, 0.0) * weight
    cell = slices * width + by.unit[areas.group - slices * size]
    for column, values in zip(_GROUPS[name], (area, weight), strict=True):
        found[column] = np.bincount(cell, values, minlength=found.shape[1])
    if counted:
        sums.mixed[name] += np.bincount(slices[mixed], minlength=len(sums.rows))
        sums.skipped[name] += np.bincount(slices[~mixed], minlength=len(sums.rows))


def _row_columns(rows: NDArray[np.void], prediction: Floats) -> dict[int, Floats]:
    """What each row adds to the sums that know no other row: column -> [n]."""
    label, weight, value = rows["label"] == 1, rows["weight"], rows["value"]
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


def _count(sums: SliceSums, rows: NDArray[np.void], places: NDArray[np.uint16], units: Integers, width: int) -> None:
    size, cells = len(sums.rows), places.astype(np.int64) * width + units
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
