"""Metrics of predicted probabilities, exact under weights and ties, that say "undefined" instead of guessing.

A metric is a `Value`: a finite number, or a reason why there is none. It is never NaN, to which every
comparison silently answers False, and never a neutral-looking 0.0 or 0.5 (a day whose clicks are all of one
class has no AUC). The weight of a row is how many rows of the full log it stands for (`labels.weight`), so a
sampled log gives the metrics of the unsampled one.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from features.errors import GemlineError
from training.areas import Floats, Integers, sorted_areas

EPSILON = 1e-7
"""Logarithms see probabilities in [EPSILON, 1 - EPSILON]: the resolution of float32 next to one."""


class Reason(StrEnum):
    """Why a metric, or its interval, has no value."""

    NO_ROWS = "no rows"
    NO_WEIGHT = "no weight"
    ONE_CLASS = "one class"
    NO_POSITIVES = "no positives"
    NO_VALUE = "no value"
    NO_MIXED_GROUP = "no group with both classes"
    NON_FINITE_PREDICTION = "non-finite prediction"
    NOT_A_PROBABILITY = "prediction outside [0, 1]"
    NON_FINITE_WEIGHT = "non-finite weight"
    ONE_UNIT = "fewer than two users"
    FEW_RESAMPLES = "too few resamples with both classes"


FAULTS = frozenset({Reason.NON_FINITE_PREDICTION, Reason.NOT_A_PROBABILITY, Reason.NON_FINITE_WEIGHT})
"""Reasons that speak of a broken model or weight; all others speak of too little evidence."""


@dataclass(frozen=True)
class Value:
    """A finite number or the reason why it is undefined, never both.

    Attributes:
        number: the value, None when undefined.
        reason: why it is undefined, None otherwise.
        groups: for averages over groups, how many groups counted.
        skipped: for averages over groups, how many groups of one class did not.
        error: how far the number may be from the exact one, None where it is exact.
    """

    number: float | None
    reason: Reason | None = None
    groups: int | None = None
    skipped: int | None = None
    error: float | None = None

    def __post_init__(self) -> None:
        """Refuse a value that is neither a finite number nor a reason."""
        if (self.number is None) == (self.reason is None):
            raise ValueError("a metric value needs exactly one of number and reason")
        if self.number is not None and not np.isfinite(self.number):
            raise ValueError(f"a metric value must be finite, not {self.number}; give a reason instead")

    @classmethod
    def undefined(cls, reason: Reason, groups: int | None = None, skipped: int | None = None) -> "Value":
        """A value that does not exist, with the reason."""
        return cls(None, reason, groups, skipped)

    @property
    def defined(self) -> bool:
        """Whether there is a number."""
        return self.number is not None

    def __str__(self) -> str:
        """The number to four decimals, or `undefined (reason)`."""
        return f"undefined ({self.reason})" if self.number is None else f"{self.number:.4f}"


@dataclass(frozen=True)
class Counts:
    """How much evidence a slice holds.

    Attributes:
        rows: number of rows.
        positives: number of rows with label 1.
        weight: sum of weights, the rows of the full log.
        positive_weight: sum of weights of the positive rows.
    """

    rows: int
    positives: int
    weight: float
    positive_weight: float


@dataclass(frozen=True)
class Sample:
    """Checked rows: three float64 arrays [n] of equal length.

    Attributes:
        label: 0 or 1.
        prediction: probabilities, possibly faulty (see `fault`).
        weight: not negative, possibly not finite (see `fault`).
    """

    label: Floats
    prediction: Floats
    weight: Floats

    @classmethod
    def of(cls, label: ArrayLike, prediction: ArrayLike, weight: ArrayLike | None = None) -> "Sample":
        """Convert and check.

        Args:
            label: [n] zeros and ones.
            prediction: [n] probabilities.
            weight: [n] not negative; ones when omitted.

        Raises:
            GemlineError: lengths differ, a label is not 0 or 1, or a weight is negative.
        """
        y = np.asarray(label, dtype=np.float64)
        p = np.asarray(prediction, dtype=np.float64)
        w = np.ones_like(y) if weight is None else np.asarray(weight, dtype=np.float64)
        if not (y.ndim == 1 and y.shape == p.shape == w.shape):
            raise GemlineError(
                f"metrics need one label, prediction and weight a row, got shapes {y.shape}, {p.shape} and "
                f"{w.shape}; join predictions to labels by (ds, impression_id, task) first"
            )
        if not np.isin(y, (0.0, 1.0)).all():
            bad = y[~np.isin(y, (0.0, 1.0))][0]
            raise GemlineError(f"metrics found label {bad}; labels must be 0 or 1, so drop rows without label")
        if (w < 0).any():
            raise GemlineError(f"metrics found weight {w.min()}; weights must not be negative")
        return cls(y, p, w)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.label)

    def fault(self) -> Reason | None:
        """What keeps every metric from being defined, None when nothing does."""
        if len(self) == 0:
            return Reason.NO_ROWS
        if not np.isfinite(self.weight).all():
            return Reason.NON_FINITE_WEIGHT
        if not np.isfinite(self.prediction).all():
            return Reason.NON_FINITE_PREDICTION
        if self.prediction.min() < 0 or self.prediction.max() > 1:
            return Reason.NOT_A_PROBABILITY
        return Reason.NO_WEIGHT if self.weight.sum() == 0 else None

    def two_class_fault(self) -> Reason | None:
        """As `fault`, and `ONE_CLASS` when positives or negatives have no weight."""
        one_class = self.positive_weight.sum() == 0 or self.negative_weight.sum() == 0
        return self.fault() or (Reason.ONE_CLASS if one_class else None)

    @property
    def positive_weight(self) -> Floats:
        """[n] weight where the label is 1, else 0."""
        return np.where(self.label == 1, self.weight, 0.0)

    @property
    def negative_weight(self) -> Floats:
        """[n] weight where the label is 0, else 0."""
        return np.where(self.label == 0, self.weight, 0.0)

    def losses(self) -> Floats:
        """[n] log-loss of each row, unweighted, in nats."""
        p = np.clip(self.prediction, EPSILON, 1 - EPSILON)
        return -np.where(self.label == 1, np.log(p), np.log1p(-p))


def counts(sample: Sample) -> Counts:
    """Rows, positives and their weights."""
    return Counts(len(sample), int(sample.label.sum()), float(sample.weight.sum()), float(sample.positive_weight.sum()))


def log_loss(sample: Sample) -> Value:
    """Weighted mean log-loss in nats; defined for one class too."""
    if fault := sample.fault():
        return Value.undefined(fault)
    return Value(float(sample.weight @ sample.losses() / sample.weight.sum()))


def entropy(rate: ArrayLike) -> Floats:
    """Entropy in nats of a coin with this probability, elementwise; NaN outside (0, 1)."""
    p = np.asarray(rate, dtype=np.float64)
    p = np.where((p > 0) & (p < 1), p, np.nan)
    return -(p * np.log(p) + (1 - p) * np.log1p(-p))


def normalized_entropy(sample: Sample) -> Value:
    """Weighted log-loss over the entropy of the weighted base rate (He et al. 2014); below 1 is skill."""
    if fault := sample.two_class_fault():
        return Value.undefined(fault)
    total = sample.weight.sum()
    base = float(sample.positive_weight.sum() / total)
    return Value(float(sample.weight @ sample.losses() / total / entropy(base)))


def calibration(sample: Sample) -> Value:
    """Predicted over observed positives, both weighted; 1 is calibrated, above 1 promises too much."""
    if fault := sample.fault():
        return Value.undefined(fault)
    observed = sample.positive_weight.sum()
    if observed == 0:
        return Value.undefined(Reason.NO_POSITIVES)
    return Value(float(sample.weight @ sample.prediction / observed))


def auc(sample: Sample) -> Value:
    """Weighted probability that a positive is scored above a negative; a tie counts half. O(n log n)."""
    if fault := sample.two_class_fault():
        return Value.undefined(fault)
    areas, _ = group_auc(sample, np.zeros(len(sample), dtype=np.int64), 1)
    return Value(float(areas[0]))


def gauc(sample: Sample, group: ArrayLike) -> Value:
    """AUC inside each group, averaged over the groups that hold both classes, each by its weight (Zhu et al. 2017).

    A weight is how many impressions of the full log a row stands for, so a group counts by its impressions.

    Args:
        sample: the rows.
        group: [n] group code of each row, 0 or above; -1 where it is unknown (such rows are in none).

    Returns:
        The average, with the number of groups that hold both classes and of those that do not.
    """
    if fault := sample.fault():
        return Value.undefined(fault, 0, 0)
    codes = np.asarray(group, dtype=np.int64)
    known = codes >= 0
    rows = Sample(sample.label[known], sample.prediction[known], sample.weight[known])
    areas, totals = group_auc(rows, codes[known], int(codes.max(initial=-1)) + 1)
    mixed = np.isfinite(areas)
    skipped = len(np.unique(codes[known])) - int(mixed.sum())
    if not mixed.any():
        return Value.undefined(Reason.NO_MIXED_GROUP, 0, skipped)
    area = float(areas[mixed] @ totals[mixed] / totals[mixed].sum())
    return Value(area, groups=int(mixed.sum()), skipped=skipped)


def group_auc(sample: Sample, codes: Integers, size: int) -> tuple[Floats, Floats]:
    """AUC of every group at once. O(n log n).

    Args:
        sample: rows without fault.
        codes: [n] group of each row, in 0 ... size - 1.
        size: number of groups.

    Returns:
        AUC [size] (NaN where a group lacks a class) and sum of weights [size].
    """
    areas, totals = np.full(size, np.nan), np.zeros(size)
    order = np.lexsort((sample.prediction, codes))
    if len(order) == 0:
        return areas, totals
    rows = Sample(sample.label[order], sample.prediction[order], sample.weight[order])
    found = sorted_areas(codes[order], rows.prediction, rows.positive_weight, rows.negative_weight)
    areas[found.group] = found.area
    totals[found.group] = found.positive + found.negative
    return areas, totals
