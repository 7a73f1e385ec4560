"""Metrics of one slice from its sums: values that say why they are undefined, with intervals from its resamples."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from training import unit_sums
from training.bootstrap import Estimate, estimate
from training.metrics import Counts, Floats, Reason, Value, entropy
from training.score_histogram import Ranks
from training.scored_rows import FAULT_OF
from training.unit_sums import SliceSums

METRICS = (
    "ne",
    "auc",
    "gauc",
    "gauc_request",
    "calibration",
    "log_loss",
    "value_ne",
    "value_calibration",
)
"""Names of all metrics of one prediction; GAUC without further word is by user."""
COMPARISONS = {
    "ne_difference": ("ne", np.subtract),
    "ne_ratio": ("ne", np.divide),
    "auc_difference": ("auc", np.subtract),
    "gauc_difference": ("gauc", np.subtract),
    "gauc_request_difference": ("gauc_request", np.subtract),
    "calibration_difference": ("calibration", np.subtract),
    "log_loss_difference": ("log_loss", np.subtract),
    "value_ne_difference": ("value_ne", np.subtract),
}
"""Name of each comparison, the metric that it compares, and how: first minus, or over, second."""


@dataclass(frozen=True)
class SliceView:
    """One slice of a dimension.

    Attributes:
        sums: of the dimension.
        ranks: of the dimension, by side.
        place: code of the slice.
    """

    sums: SliceSums
    ranks: tuple[Ranks, ...]
    place: int

    @property
    def counts(self) -> Counts:
        """How much evidence there is."""
        positive, negative = self.sums.total[0, unit_sums.POSITIVE : unit_sums.LOSS, self.place]
        rows, positives = int(self.sums.rows[self.place]), int(self.sums.positives[self.place])
        return Counts(rows, positives, float(positive + negative), float(positive))

    @property
    def fault(self) -> Reason | None:
        """What keeps every metric from being defined."""
        for code, reason in enumerate(FAULT_OF):
            if code and self.sums.faults[self.place, code]:
                return reason
        return Reason.NO_WEIGHT if self.counts.weight == 0 else None

    @property
    def two_class_fault(self) -> Reason | None:
        """As `fault`, and `ONE_CLASS` when positives or negatives have no weight."""
        return self.fault or self._one_class(unit_sums.POSITIVE)

    def estimates(self, names: tuple[str, ...]) -> dict[str, Estimate]:
        """Metrics of the first prediction."""
        values, resampled = self._metrics(0)
        return {name: self._estimate(values[name], resampled[name]) for name in names}

    def comparison(self, names: tuple[str, ...]) -> dict[str, Estimate]:
        """NE of both predictions, and the first against the second, on the same resamples."""
        values, resampled = zip(*(self._metrics(side) for side in (0, 1)), strict=True)
        found = {
            name: self._estimate(values[side]["ne"], resampled[side]["ne"])
            for side, name in enumerate(("ne_a", "ne_b"))
        }
        for name, (metric, how) in COMPARISONS.items():
            if metric in names:
                value = _combined(how, values[0][metric], values[1][metric])
                with np.errstate(divide="ignore", invalid="ignore"):
                    found[name] = self._estimate(value, how(resampled[0][metric], resampled[1][metric]))
        return found

    def _estimate(self, value: Value, resampled: Floats) -> Estimate:
        return estimate(value, resampled, int(self.sums.units[self.place]))

    def _metrics(self, side: int) -> tuple[dict[str, Value], dict[str, Floats]]:
        """Every metric on the rows, and on each resample."""
        total, resampled = self.sums.total[side, :, self.place], self.sums.resampled[side, :, self.place]
        ranks = self.ranks[side]
        numbers = {name: float(found[0]) for name, found in _ratios(total[:, None]).items()}
        numbers["auc"] = float(ranks.auc[self.place])
        reasons = self._reasons()
        values = {name: _value(number, reasons[name]) for name, number in numbers.items()}
        if values["auc"].defined:
            values["auc"] = Value(numbers["auc"], error=float(ranks.error[self.place]))
        for name, group in (("gauc", "user_id"), ("gauc_request", "request_id")):
            counted = int(self.sums.mixed[group][self.place]), int(self.sums.skipped[group][self.place])
            values[name] = Value(values[name].number, values[name].reason, *counted)
        drawn = _ratios(resampled)
        drawn["auc"] = _resampled_auc(numbers["auc"], total, resampled)
        return values, drawn

    def _reasons(self) -> dict[str, Reason]:
        """Why a metric is undefined, where its number is none."""
        no_groups, no_positives = Reason.NO_MIXED_GROUP, Reason.NO_POSITIVES
        by_value = Reason.NO_VALUE if self._weight(unit_sums.VALUE_POSITIVE) == 0 else None
        found = {
            "ne": Reason.ONE_CLASS,
            "auc": Reason.ONE_CLASS,
            "gauc": no_groups,
            "gauc_request": no_groups,
            "calibration": no_positives,
            "log_loss": Reason.NO_WEIGHT,
            "value_ne": by_value or Reason.ONE_CLASS,
            "value_calibration": by_value or no_positives,
        }
        fault = self.fault
        return dict(found) if fault is None else dict.fromkeys(found, fault)

    def _weight(self, column: int) -> float:
        return float(self.sums.total[0, column : column + 2, self.place].sum())

    def _one_class(self, column: int) -> Reason | None:
        return Reason.ONE_CLASS if (self.sums.total[0, column : column + 2, self.place] == 0).any() else None


def _ratios(sums: Floats) -> dict[str, Floats]:
    """Metrics but AUC of sums [COLUMNS, n]; NaN where undefined, which never leaves this module."""
    positive, negative, loss, predicted = sums[unit_sums.POSITIVE : unit_sums.PREDICTED + 1]
    value_positive, value_negative, value_loss, value_predicted = sums[
        unit_sums.VALUE_POSITIVE : unit_sums.VALUE_PREDICTED + 1
    ]
    mean = _divide(loss, positive + negative)
    value_mean = _divide(value_loss, value_positive + value_negative)
    return {
        "ne": _divide(mean, entropy(_divide(positive, positive + negative))),
        "gauc": _divide(sums[unit_sums.USER_AREA], sums[unit_sums.USER_WEIGHT]),
        "gauc_request": _divide(sums[unit_sums.REQUEST_AREA], sums[unit_sums.REQUEST_WEIGHT]),
        "calibration": _divide(predicted, positive),
        "log_loss": mean,
        "value_ne": _divide(value_mean, entropy(_divide(value_positive, value_positive + value_negative))),
        "value_calibration": _divide(value_predicted, value_positive),
    }


def _resampled_auc(auc: float, total: Floats, resampled: Floats) -> Floats:
    """AUC of each resample to first order; NaN where a resample lacks a class."""
    moved = np.zeros(resampled.shape[1])
    lacking = np.zeros(resampled.shape[1], dtype=bool)
    for mass, won in (
        (unit_sums.POSITIVE, unit_sums.ABOVE_NEGATIVES),
        (unit_sums.NEGATIVE, unit_sums.BELOW_POSITIVES),
    ):
        if total[mass] == 0:
            return np.full(resampled.shape[1], np.nan)
        moved += (resampled[won] - auc * resampled[mass]) / total[mass]
        lacking |= resampled[mass] == 0
    return np.where(lacking, np.nan, np.clip(auc + moved, 0.0, 1.0))


def _divide(numerator: Floats, denominator: Floats) -> Floats:
    return np.divide(numerator, denominator, out=np.full(len(numerator), np.nan), where=denominator > 0)


def _value(number: float, reason: Reason) -> Value:
    # what stands in for a faulty prediction gives numbers that mean nothing
    return Value.undefined(reason) if reason in FAULT_OF or not np.isfinite(number) else Value(number)


def _combined(how: Callable[[float, float], float], first: Value, second: Value) -> Value:
    if first.number is None or second.number is None:
        return Value.undefined(first.reason or second.reason or Reason.NO_ROWS)
    return Value(float(how(first.number, second.number)))
