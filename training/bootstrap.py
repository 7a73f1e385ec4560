"""Intervals by a Poisson bootstrap over users, whose draws need no index of users and no second look at the rows.

Rows of one user are not independent, so a resample keeps or drops users with all their rows. Each user belongs to
one of `UNITS` units by a hash of its id and the seed, and a resample takes a unit Poisson(1) times (Chamandy et al.
2012): the draws of a user follow from (seed, user) alone, whatever else is in the rows, in which order and in which
batches. Units that hold several users leave the variance right on average; 2,048 of them know the width of an interval
to about 1.6 %, a few hundred resamples to about 3 %. Both sides of a comparison see the same draws.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from training.metrics import Floats, Integers, Reason, Value

LEVEL = 0.95
USABLE = 0.9
"""Share of the resamples that must have the metric; below it an interval describes the lucky ones only."""
UNITS = 2048
"""Into how many units users are hashed."""


@dataclass(frozen=True)
class Interval:
    """Percentile interval.

    Attributes:
        low: lower end.
        high: upper end.
        resamples: number of resamples in which the metric was defined.
    """

    low: float
    high: float
    resamples: int


@dataclass(frozen=True)
class Estimate:
    """A point value on the rows themselves and its interval.

    Attributes:
        value: number or reason.
        interval: None when there is none.
        missing: why there is no interval, None when there is one.
    """

    value: Value
    interval: Interval | None
    missing: Reason | None = None


def units_of(ids: Integers, seed: int) -> NDArray[np.uint16]:
    """Unit [n] of each id, in 0 ... UNITS - 1, the same for the same seed and id everywhere.

    Args:
        ids: [n] int64 ids of users.
        seed: another seed puts users together differently.
    """
    mixed: NDArray[np.uint16] = (_mix(ids.view(np.uint64) ^ _mix(np.array([seed], np.uint64))) % UNITS).astype("u2")
    return mixed


@lru_cache(maxsize=2)
def draws(resamples: int, seed: int) -> Floats:
    """How often each resample takes each unit: [resamples, UNITS], Poisson(1)."""
    found = np.random.default_rng(seed).poisson(1.0, (resamples, UNITS)).astype(np.float64)
    found.flags.writeable = False
    return found


def estimate(value: Value, resampled: Floats, units: int) -> Estimate:
    """The value with the interval of its resamples.

    Args:
        value: on the rows themselves.
        resampled: [resamples] the metric of each, NaN where it is undefined.
        units: how many units the rows belong to.
    """
    if not value.defined:
        return Estimate(value, None, value.reason)
    if units < 2:
        return Estimate(value, None, Reason.ONE_UNIT)
    usable = resampled[np.isfinite(resampled)]
    if len(usable) == 0 or len(usable) < USABLE * len(resampled):
        return Estimate(value, None, Reason.FEW_RESAMPLES)
    low, high = np.quantile(usable, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, Interval(float(low), float(high), len(usable)))


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele et al. 2014): every bit of the id moves every bit of the hash."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
