"""What predictions of several models are worth on identical rows of later weeks, weighted back to the full log.

NE is linear in the losses, so several seeds are judged by their mean loss. Intervals resample households, and
seeds of each model with them.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from benchmarks.rivals.dataset import Truth
from benchmarks.rivals.resampling import auc_of, draws, resampling_units
from training import metrics
from training.metrics import EPSILON, Floats, Sample
from training.platt import platt

RESAMPLES = 1000
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A value and both ends of its interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, resampled: list[Floats]) -> "Estimate":
        """With the percentile interval of resampled values."""
        tail = 50 * (1 - LEVEL)
        low, high = np.percentile(np.concatenate(resampled), [tail, 100 - tail])
        return cls(value, float(low), float(high))


@dataclass(frozen=True)
class Scores:
    """Means over seeds."""

    ne: float
    auc: float
    auc_sold: float
    calibration: float


def scores(truth: Truth, given: Floats) -> Scores:
    """Of one model's predictions [seeds, N]."""
    samples = [_sample(truth, one) for one in given]
    sold = [Sample.of(s.label[truth.sold], s.prediction[truth.sold], s.weight[truth.sold]) for s in samples]
    return Scores(
        ne=_mean([metrics.normalized_entropy(sample) for sample in samples]),
        auc=_mean([metrics.auc(sample) for sample in samples]),
        auc_sold=_mean([metrics.auc(sample) for sample in sold]),
        calibration=_mean([metrics.calibration(sample) for sample in samples]),
    )


def ne_by_seed(truth: Truth, given: Floats) -> list[float]:
    """NE of each seed, to four decimals."""
    return [round(_mean([metrics.normalized_entropy(_sample(truth, one))]), 4) for one in given]


def ne_ratio(truth: Truth, own: Floats, other: Floats, seed: int = 0) -> Estimate:
    """NE of one model over that of another on the same rows.

    Args:
        truth: of the rows.
        own: predictions [seeds, N].
        other: predictions [other seeds, N].
        seed: of the resamples.
    """
    first, second = (_household_losses(truth, given) for given in (own, other))
    rng = np.random.default_rng(seed)
    found = []
    for times in draws(first.shape[1], RESAMPLES, seed):
        above, below = (_resampled(losses, times, rng) for losses in (first, second))
        found.append(above / below)
    return Estimate.of(float(first.sum() / len(first) / (second.sum() / len(second))), found)


def auc_gain(truth: Truth, own: Floats, other: Floats, seed: int = 0) -> Estimate:
    """AUC of one model minus that of another on the same rows, averaged over paired seeds.

    Args:
        truth: of the rows.
        own: predictions [seeds, N].
        other: predictions of the same seeds [seeds, N].
        seed: of the resamples, which draw households and pairs of seeds.
    """
    units = resampling_units(truth.user_id)
    pairs = [tuple(auc_of(_sample(truth, one), units) for one in pair) for pair in zip(own, other, strict=True)]
    rng = np.random.default_rng(seed)

    def gains(times: np.ndarray) -> Floats:
        return np.array([first(times) - second(times) for first, second in pairs])

    found = [
        np.array([rng.choice(gains(once), len(pairs)).mean() for once in times])
        for times in draws(int(units.max()) + 1, RESAMPLES, seed)
    ]
    return Estimate.of(float(gains(np.ones(int(units.max()) + 1, dtype=np.int64)).mean()), found)


def calibration(truth: Truth, given: Floats, seed: int = 0) -> Estimate:
    """Sum of predictions over sum of labels, pooled over seeds."""
    predicted, happened = _household_sums(truth, given), _household_sums(truth, truth.label[None])
    rng = np.random.default_rng(seed)
    found = [
        _resampled(predicted, times, rng) / (times @ happened[0]) for times in draws(happened.shape[1], RESAMPLES, seed)
    ]
    return Estimate.of(float(predicted.sum() / len(predicted) / happened.sum()), found)


def rolling_platt(truth: Truth, given: Floats) -> Floats:
    """Each week's predictions through a logistic fit to all judged weeks before it; the first week as given.

    Args:
        truth: of the rows; a week's labels change later weeks only.
        given: predictions [seeds, N].
    """
    found = given.copy()
    for week in np.unique(truth.week)[1:]:
        before, now = truth.week < week, truth.week == week
        for place, one in enumerate(given):
            x = _logits(one)
            slope, shift = platt(x[before], truth.label[before], truth.weight[before], ridge=0.0)
            found[place, now] = expit(slope * x[now] + shift)
    return found


def _logits(probability: Floats) -> Floats:
    found: Floats = logit(np.clip(probability, EPSILON, 1 - EPSILON))
    return found


def _sample(truth: Truth, one: Floats) -> Sample:
    return Sample.of(truth.label, one, truth.weight)


def _mean(values: list[metrics.Value]) -> float:
    numbers = [value.number for value in values]
    if None in numbers:
        return float("nan")
    return float(np.mean([number for number in numbers if number is not None]))


def _household_losses(truth: Truth, given: Floats) -> Floats:
    """Weighted losses by seed and household [seeds, households]."""
    units = resampling_units(truth.user_id)
    return np.stack([np.bincount(units, truth.weight * _sample(truth, one).losses()) for one in given])


def _household_sums(truth: Truth, values: Floats) -> Floats:
    units = resampling_units(truth.user_id)
    return np.stack([np.bincount(units, truth.weight * one) for one in values])


def _resampled(by_seed: Floats, times: np.ndarray, rng: np.random.Generator) -> Floats:
    """Mean over drawn seeds of the sums over drawn households: [resamples]."""
    seeds = len(by_seed)
    chosen = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=len(times)) / seeds
    return np.asarray(((times @ by_seed.T) * chosen).sum(axis=1), dtype=np.float64)
