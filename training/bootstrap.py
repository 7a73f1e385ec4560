"""Intervals by resampling users, and paired differences of two predictions on identical rows.

Rows of one user are not independent, so a resample draws users (with replacement, as many as there are) and
takes all their rows. NE, log-loss, calibration and GAUC by user are ratios of per-user sums, so a resample is
one dot product with those sums; AUC sorts once and is reweighted. Both sides of a pair see the same
resamples.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from training import metrics
from training.metrics import Floats, Integers, Reason, Sample, Value

LEVEL = 0.95
USABLE = 0.9
"""Share of the resamples that must have the metric; below it an interval describes the lucky ones only."""
_CHUNK = 1 << 22
_POSITIVE, _NEGATIVE, _LOSS, _PREDICTED, _AREA, _AREA_WEIGHT = range(6)


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


@dataclass(frozen=True)
class Paired:
    """Candidate against incumbent on identical rows, with the same resamples.

    Attributes:
        ne_difference: NE of the candidate minus NE of the incumbent; below zero the candidate is better.
        ne_ratio: NE of the candidate over NE of the incumbent; below one the candidate is better.
        auc_difference: AUC of the candidate minus AUC of the incumbent; above zero the candidate is better.
        ne_candidate: NE of the candidate.
        ne_incumbent: NE of the incumbent.
    """

    ne_difference: Estimate
    ne_ratio: Estimate
    auc_difference: Estimate
    ne_candidate: Value
    ne_incumbent: Value


def user_codes(user_id: ArrayLike | pd.Series) -> Integers:
    """[n] code of each row's user, ascending by id; -1 where the id is null."""
    codes, _ = pd.factorize(pd.Series(user_id), sort=True)
    return np.asarray(codes, dtype=np.int64)


def resampling_units(user_id: ArrayLike | pd.Series) -> Integers:
    """[n] unit of each row: its user, or the row itself where the user is unknown."""
    codes = user_codes(user_id)
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


def estimates(sample: Sample, user_id: ArrayLike | pd.Series, resamples: int, seed: int) -> dict[str, Estimate]:
    """All metrics of one prediction with 95 % intervals.

    Args:
        sample: the rows.
        user_id: [n] ids, nullable.
        resamples: number of resamples; 0 gives point values without intervals.
        seed: the same seed and users give the same resamples.

    Returns:
        Estimates of `ne`, `auc`, `gauc` (by user), `calibration` and `log_loss`.
    """
    users = user_codes(user_id)
    values = {
        "ne": metrics.normalized_entropy(sample),
        "auc": metrics.auc(sample),
        "gauc": metrics.gauc(sample, users),
        "calibration": metrics.calibration(sample),
        "log_loss": metrics.log_loss(sample),
    }
    if sample.fault() or resamples == 0:
        return {name: Estimate(value, None, value.reason) for name, value in values.items()}
    units = resampling_units(user_id)
    size = int(units.max()) + 1
    sums, area = _unit_sums(sample, units, size), auc_of(sample, units)
    found: dict[str, list[Floats]] = {name: [] for name in values}
    for drawn in draws(size, resamples, seed):
        for name, part in _ratios(drawn @ sums).items():
            found[name].append(part)
        found["auc"].append(np.array([area(times) for times in drawn]))
    return {name: _estimate(value, np.concatenate(found[name]), size) for name, value in values.items()}


def paired(candidate: Sample, incumbent: Sample, user_id: ArrayLike | pd.Series, resamples: int, seed: int) -> Paired:
    """Difference of two predictions on identical rows.

    Args:
        candidate: the rows with the candidate's predictions.
        incumbent: the same rows, in the same order, with the incumbent's.
        user_id: [n] ids, nullable.
        resamples: number of resamples, the same ones for both sides.
        seed: of the resamples.

    Raises:
        ValueError: labels or weights of the two samples differ.
    """
    if not (
        np.array_equal(candidate.label, incumbent.label)
        and np.array_equal(candidate.weight, incumbent.weight, equal_nan=True)
    ):
        raise ValueError("a paired comparison needs the same labels and weights on both sides, in the same order")
    sides = (candidate, incumbent)
    ne = [metrics.normalized_entropy(side) for side in sides]
    auc = [metrics.auc(side) for side in sides]
    values = {
        "ne_difference": _combine(np.subtract, *ne),
        "ne_ratio": _combine(np.divide, *ne),
        "auc_difference": _combine(np.subtract, *auc),
    }
    if candidate.fault() or incumbent.fault():
        drawn = {name: Estimate(value, None, value.reason) for name, value in values.items()}
    else:
        drawn = _paired_intervals(sides, resampling_units(user_id), values, resamples, seed)
    return Paired(**drawn, ne_candidate=ne[0], ne_incumbent=ne[1])


def _paired_intervals(
    sides: tuple[Sample, Sample], units: Integers, values: dict[str, Value], resamples: int, seed: int
) -> dict[str, Estimate]:
    size = int(units.max()) + 1
    sums = [_unit_sums(side, units, size) for side in sides]
    areas = [auc_of(side, units) for side in sides]
    found: dict[str, list[Floats]] = {name: [] for name in values}
    for drawn in draws(size, resamples, seed):
        ne = [_ratios(drawn @ side)["ne"] for side in sums]
        auc = [np.array([area(times) for times in drawn]) for area in areas]
        found["ne_difference"].append(ne[0] - ne[1])
        found["ne_ratio"].append(_divide(ne[0], ne[1]))
        found["auc_difference"].append(auc[0] - auc[1])
    return {
        name: _estimate(value, np.concatenate(found[name] or [np.empty(0)]), size) for name, value in values.items()
    }


def _combine(operation: Callable[[float, float], float], first: Value, second: Value) -> Value:
    if first.number is None or second.number is None:
        return Value.undefined(first.reason or second.reason or Reason.NO_ROWS)
    return Value(float(operation(first.number, second.number)))


def _unit_sums(sample: Sample, units: Integers, size: int) -> Floats:
    """[size, 6] sums of each unit, all that a resample needs except for AUC."""

    def by_unit(of_row: Floats) -> Floats:
        return np.bincount(units, of_row, minlength=size).astype(np.float64)

    areas, totals = metrics.group_auc(sample, units, size)
    mixed = np.isfinite(areas)
    columns: list[Floats] = [np.empty(0)] * 6
    columns[_POSITIVE] = by_unit(sample.positive_weight)
    columns[_NEGATIVE] = by_unit(sample.negative_weight)
    columns[_LOSS] = by_unit(sample.weight * sample.losses())
    columns[_PREDICTED] = by_unit(sample.weight * sample.prediction)
    columns[_AREA] = np.where(mixed, areas * totals, 0.0)
    columns[_AREA_WEIGHT] = np.where(mixed, totals, 0.0)
    return np.stack(columns, axis=1)


def _ratios(sums: Floats) -> dict[str, Floats]:
    """Metrics of resampled sums [resamples, 6]; NaN where undefined, which never leaves this module."""
    total = sums[:, _POSITIVE] + sums[:, _NEGATIVE]
    loss = _divide(sums[:, _LOSS], total)
    return {
        "ne": _divide(loss, metrics.entropy(_divide(sums[:, _POSITIVE], total))),
        "log_loss": loss,
        "calibration": _divide(sums[:, _PREDICTED], sums[:, _POSITIVE]),
        "gauc": _divide(sums[:, _AREA], sums[:, _AREA_WEIGHT]),
    }


def _divide(numerator: Floats, denominator: Floats) -> Floats:
    return np.divide(numerator, denominator, out=np.full(len(numerator), np.nan), where=denominator > 0)


def auc_of(sample: Sample, units: Integers) -> Callable[[Integers], float]:
    """AUC as a function of how often each unit is drawn; sorts once, a call is linear in the rows."""
    order = np.argsort(sample.prediction, kind="stable")
    negative = order[sample.label[order] == 0]
    positive = order[sample.label[order] == 1]
    low = np.searchsorted(sample.prediction[negative], sample.prediction[positive], side="left")
    high = np.searchsorted(sample.prediction[negative], sample.prediction[positive], side="right")
    weight_n, unit_n = sample.weight[negative], units[negative]
    weight_p, unit_p = sample.weight[positive], units[positive]
    below = np.zeros(len(negative) + 1)

    def area(times: Integers) -> float:
        np.cumsum(weight_n * times[unit_n], out=below[1:])
        weight = weight_p * times[unit_p]
        pairs = weight.sum() * below[-1]
        return float(weight @ (below[low] + below[high]) / 2 / pairs) if pairs > 0 else float("nan")

    return area


def _estimate(value: Value, resampled: Floats, units: int) -> Estimate:
    if not value.defined:
        return Estimate(value, None, value.reason)
    if units < 2:
        return Estimate(value, None, Reason.ONE_UNIT)
    usable = resampled[np.isfinite(resampled)]
    if len(usable) == 0 or len(usable) < USABLE * len(resampled):
        return Estimate(value, None, Reason.FEW_RESAMPLES)
    low, high = np.quantile(usable, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, Interval(float(low), float(high), len(usable)))
