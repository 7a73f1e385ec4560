"""AUC of many groups at once, of rows that are sorted already."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class GroupAreas:
    """AUC of groups: arrays [groups], ascending by group.

    Attributes:
        group: codes.
        area: AUC; NaN where a class has no weight.
        positive: weight of the positives.
        negative: weight of the negatives.
    """

    group: Integers
    area: Floats
    positive: Floats
    negative: Floats


def sorted_areas(group: Integers, score: NDArray[Any], positive: Floats, negative: Floats) -> GroupAreas:
    """AUC of each group of rows that are sorted by group, then score; ties count half. O(n).

    Args:
        group: [n] codes, ascending.
        score: [n] ascending within a group; equal scores are ties.
        positive: [n] weight of a row if it is positive, else 0.
        negative: [n] weight of a row if it is negative, else 0.
    """
    new_group = np.concatenate(([True], group[1:] != group[:-1]))
    start = np.flatnonzero(new_group | np.concatenate(([True], score[1:] != score[:-1])))
    run = np.repeat(np.arange(len(start)), np.diff(start, append=len(group)))
    won_p, won_n = sums_by(run, positive), sums_by(run, negative)
    below = np.cumsum(won_n) - won_n
    first = np.flatnonzero(new_group[start])
    of_group = np.repeat(np.arange(len(first)), np.diff(first, append=len(start)))
    # below a run are the negatives of its own group only
    won = sums_by(of_group, won_p * (below - below[first][of_group] + won_n / 2))
    positives, negatives = sums_by(of_group, won_p), sums_by(of_group, won_n)
    pairs = positives * negatives
    area = np.divide(won, pairs, out=np.full(len(first), np.nan), where=pairs > 0)
    return GroupAreas(group[start[first]], area, positives, negatives)


def sums_by(codes: NDArray[Any], values: Floats, size: int = 0) -> Floats:
    """Sum of the values of each code 0, 1, ...: [at least `size`]."""
    return np.asarray(np.bincount(codes, values, minlength=size), dtype=np.float64)
