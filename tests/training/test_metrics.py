"""Metrics against scikit-learn, brute force and the closed form; undefined says undefined."""

from collections.abc import Callable

import numpy as np
import pytest

from features.errors import GemlineError
from training import metrics
from training.metrics import Reason, Sample, Value


def rows(seed: int, n: int = 400, ties: int | None = 20) -> Sample:
    """Random rows with weights and, by default, many tied predictions."""
    rng = np.random.default_rng(seed)
    prediction = rng.random(n) if ties is None else rng.integers(0, ties, n) / ties
    label = (rng.random(n) < 0.1 + 0.4 * prediction).astype(float)
    return Sample.of(label, prediction, np.where(label == 1, 1.0, rng.choice([1.0, 5.0, 200.0], n)))


def brute_auc(sample: Sample) -> float:
    """All pairs of a positive and a negative."""
    won = pairs = 0.0
    for i in np.flatnonzero(sample.label == 1):
        for j in np.flatnonzero(sample.label == 0):
            weight = sample.weight[i] * sample.weight[j]
            pairs += weight
            won += weight * float(np.heaviside(sample.prediction[i] - sample.prediction[j], 0.5))
    return won / pairs


def number(value: Value) -> float:
    """The number of a value that must be defined."""
    assert value.number is not None, value
    return value.number


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ties", [2, 20, None])
def test_auc_and_log_loss_equal_scikit_learn(seed: int, ties: int | None) -> None:
    oracle = pytest.importorskip("sklearn.metrics")
    sample = rows(seed, ties=ties)
    expected = oracle.roc_auc_score(sample.label, sample.prediction, sample_weight=sample.weight)
    assert number(metrics.auc(sample)) == pytest.approx(expected, abs=1e-12)
    clipped = np.clip(sample.prediction, metrics.EPSILON, 1 - metrics.EPSILON)
    expected = oracle.log_loss(sample.label, clipped, sample_weight=sample.weight)
    assert number(metrics.log_loss(sample)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_auc_equals_all_pairs(seed: int) -> None:
    sample = rows(seed, n=80, ties=7)
    assert number(metrics.auc(sample)) == pytest.approx(brute_auc(sample), abs=1e-12)


def test_auc_of_tied_predictions_is_a_half_and_of_separated_ones_is_one() -> None:
    assert metrics.auc(Sample.of([0, 1, 1], [0.3, 0.3, 0.3])) == Value(0.5)
    assert metrics.auc(Sample.of([0, 1, 1], [0.2, 0.3, 0.3])) == Value(1.0)


@pytest.mark.parametrize("seed", range(4))
def test_gauc_equals_the_loop_over_groups(seed: int) -> None:
    sample = rows(seed, ties=9)
    group = np.random.default_rng(seed).integers(-1, 60, len(sample))
    areas, totals = [], []
    for code in range(60):
        inside = group == code
        part = Sample(sample.label[inside], sample.prediction[inside], sample.weight[inside])
        if 0 < part.label.sum() < len(part):
            areas.append(brute_auc(part))
            totals.append(part.weight.sum())
    value = metrics.gauc(sample, group)
    assert value.groups == len(areas) < 60
    assert value.skipped == len(set(group[group >= 0])) - len(areas)
    assert number(value) == pytest.approx(np.average(areas, weights=totals), abs=1e-12)


def test_gauc_is_blind_to_what_differs_between_groups() -> None:
    sample = Sample.of([1, 0, 1, 0], [0.9, 0.8, 0.2, 0.1])
    assert metrics.gauc(sample, [0, 0, 1, 1]) == Value(1.0, groups=2, skipped=0)
    assert number(metrics.auc(sample)) == 0.75
    assert metrics.gauc(sample, [0, 1, 2, -1]) == Value.undefined(Reason.NO_MIXED_GROUP, 0, 3)


def test_ne_is_one_for_the_base_rate_and_halves_with_the_loss() -> None:
    sample = rows(3)
    base = np.average(sample.label, weights=sample.weight)
    constant = Sample(sample.label, np.full(len(sample), base), sample.weight)
    assert number(metrics.normalized_entropy(constant)) == pytest.approx(1.0, abs=1e-12)
    expected = number(metrics.log_loss(sample)) / number(metrics.log_loss(constant))
    assert number(metrics.normalized_entropy(sample)) == pytest.approx(expected, rel=1e-12)
    assert number(metrics.calibration(constant)) == pytest.approx(1.0, abs=1e-12)


def test_weights_stand_for_repeated_rows() -> None:
    sample = rows(5, n=60)
    times = sample.weight.astype(int)
    repeated = Sample.of(np.repeat(sample.label, times), np.repeat(sample.prediction, times))
    for metric in ALL:
        assert number(metric(sample)) == pytest.approx(number(metric(repeated)), rel=1e-10)
    assert metrics.counts(sample).weight == len(repeated)


def test_sampled_negatives_with_weights_give_the_calibration_of_the_full_log() -> None:
    rng = np.random.default_rng(0)
    label = (rng.random(100_000) < 0.01).astype(float)
    kept = (label == 1) | (rng.random(100_000) < 0.1)
    weight = np.where(label == 1, 1.0, 10.0)[kept]
    honest = Sample.of(label[kept], np.full(kept.sum(), 0.01), weight)
    assert number(metrics.calibration(honest)) == pytest.approx(1.0, abs=0.1)
    inflated = Sample.of(label[kept], np.full(kept.sum(), 0.092), weight)
    assert number(metrics.calibration(inflated)) > 8


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_one_class_is_undefined_but_log_loss_stays(label: float) -> None:
    sample = Sample.of(np.full(50, label), np.full(50, 0.25))
    assert metrics.auc(sample) == Value.undefined(Reason.ONE_CLASS)
    assert metrics.normalized_entropy(sample) == Value.undefined(Reason.ONE_CLASS)
    assert str(metrics.auc(sample)) == "undefined (one class)"
    assert number(metrics.log_loss(sample)) == pytest.approx(-np.log(0.25 if label else 0.75))
    calibration = metrics.calibration(sample)
    assert calibration == (Value(0.25) if label else Value.undefined(Reason.NO_POSITIVES))


def test_a_class_without_weight_counts_as_absent() -> None:
    sample = Sample.of([0, 1, 1], [0.1, 0.2, 0.3], [0.0, 1.0, 1.0])
    assert metrics.auc(sample).reason is Reason.ONE_CLASS


ALL = (metrics.auc, metrics.log_loss, metrics.normalized_entropy, metrics.calibration)


@pytest.mark.parametrize("metric", ALL)
def test_no_rows_and_broken_predictions_are_undefined(metric: Callable[[Sample], Value]) -> None:
    assert metric(Sample.of([], [])) == Value.undefined(Reason.NO_ROWS)
    assert metric(Sample.of([0, 1], [0.1, np.nan])) == Value.undefined(Reason.NON_FINITE_PREDICTION)
    assert metric(Sample.of([0, 1], [0.1, np.inf])) == Value.undefined(Reason.NON_FINITE_PREDICTION)
    assert metric(Sample.of([0, 1], [0.1, 1.5])) == Value.undefined(Reason.NOT_A_PROBABILITY)
    assert metric(Sample.of([0, 1], [0.1, 0.2], [np.nan, 1])) == Value.undefined(Reason.NON_FINITE_WEIGHT)
    assert metric(Sample.of([0, 1], [0.1, 0.2], [0, 0])) == Value.undefined(Reason.NO_WEIGHT)


def test_predictions_of_exactly_zero_and_one_cost_a_finite_loss() -> None:
    assert number(metrics.log_loss(Sample.of([1, 0], [0.0, 1.0]))) == pytest.approx(-np.log(metrics.EPSILON))


@pytest.mark.parametrize(
    ("label", "prediction", "weight", "match"),
    [
        ([0, 1], [0.5], None, "join predictions to labels"),
        ([0, 2], [0.5, 0.5], None, "labels must be 0 or 1"),
        ([0, np.nan], [0.5, 0.5], None, "labels must be 0 or 1"),
        ([0, 1], [0.5, 0.5], [1, -1], "must not be negative"),
    ],
)
def test_malformed_rows_are_refused(label: list, prediction: list, weight: list | None, match: str) -> None:
    with pytest.raises(GemlineError, match=match):
        Sample.of(label, prediction, weight)


def test_a_value_is_a_finite_number_or_a_reason() -> None:
    for wrong, reason in [(float("nan"), None), (None, None), (1.0, Reason.ONE_CLASS), (np.inf, None)]:
        with pytest.raises(ValueError, match="metric value"):
            Value(wrong, reason)
