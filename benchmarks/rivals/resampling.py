"""Resamples of households in memory, with replacement, for predictions of several seeds on the same rows."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from training.metrics import Floats, Integers, Sample

_CHUNK = 1 << 22


def resampling_units(user_id: ArrayLike | pd.Series) -> Integers:
    """[n] unit of each row: its user, or the row itself where the user is unknown."""
    codes = np.asarray(pd.factorize(pd.Series(user_id), sort=True)[0], dtype=np.int64)
    unknown = codes < 0
    codes[unknown] = codes.max(initial=-1) + 1 + np.arange(int(unknown.sum()))
    return codes


def draws(units: int, resamples: int, seed: int) -> Iterator[Integers]:
    """How often each unit is drawn: int64 [chunk, units], each row summing to `units`; `resamples` rows."""
    generator = np.random.default_rng(seed)
    chunk = max(1, _CHUNK // max(units, 1))
    for first in range(0, resamples, chunk):
        size = min(chunk, resamples - first)
        drawn = generator.integers(0, units, size=(size, units)) + units * np.arange(size)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * units).reshape(size, units)


def auc_of(sample: Sample, units: Integers) -> Callable[[Integers], float]:
    """AUC as a function of how often each unit is drawn; sorts once, a call is linear in the rows."""
    order = np.argsort(sample.prediction, kind="stable")
    negative = order[sample.label[order] == 0]
    positive = order[sample.label[order] == 1]
    low = np.searchsorted(sample.prediction[negative], sample.prediction[positive], side="left")
    high = np.searchsorted(sample.prediction[negative], sample.prediction[positive], side="right")
    weight_n, unit_n = sample.weight[negative], units[negative]
    weight_p, unit_p = sample.weight[positive], units[positive]
    below: Floats = np.zeros(len(negative) + 1)

    def area(times: Integers) -> float:
        np.cumsum(weight_n * times[unit_n], out=below[1:])
        weight = weight_p * times[unit_p]
        pairs = weight.sum() * below[-1]
        return float(weight @ (below[low] + below[high]) / 2 / pairs) if pairs > 0 else float("nan")

    return area
