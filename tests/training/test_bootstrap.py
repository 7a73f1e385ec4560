"""Intervals against an explicit resampling of rows, coverage on known data, and paired differences."""

import time

import numpy as np
import pandas as pd
import pytest

from training import bootstrap, metrics
from training.bootstrap import draws, estimates, paired, resampling_units
from training.metrics import Reason, Sample


def log(seed: int, n: int = 600, users: int = 40) -> tuple[Sample, pd.Series]:
    """Rows of `users` users whose own rates differ; some rows have no user."""
    rng = np.random.default_rng(seed)
    user = pd.Series(rng.integers(0, users, n), dtype="Int64").mask(rng.random(n) < 0.05)
    taste = rng.normal(0, 1, users)
    logit = -1.5 + taste[user.fillna(0).to_numpy(dtype=int)] + rng.normal(0, 1, n)
    probability = 1 / (1 + np.exp(-logit))
    label = (rng.random(n) < probability).astype(float)
    return Sample.of(label, np.round(probability, 2), np.where(label == 1, 1.0, 5.0)), user


def test_draws_are_users_with_replacement_whatever_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.concatenate(list(draws(37, 50, seed=4)))
    assert whole.shape == (50, 37)
    assert (whole.sum(axis=1) == 37).all()
    monkeypatch.setattr(bootstrap, "_CHUNK", 37 * 7)
    assert np.array_equal(whole, np.concatenate(list(draws(37, 50, seed=4))))
    assert not np.array_equal(whole, np.concatenate(list(draws(37, 50, seed=5))))


def test_rows_without_user_are_units_of_their_own() -> None:
    units = resampling_units(pd.Series([7, None, 3, 7, None], dtype="Int64"))
    assert units.tolist() == [1, 2, 0, 1, 3]
    big = 2**62 + 1
    assert resampling_units(pd.Series([big, big + 1, big], dtype="Int64")).tolist() == [0, 1, 0]


def test_every_interval_equals_metrics_of_explicitly_repeated_rows() -> None:
    sample, user = log(0)
    units = resampling_units(user)
    found = estimates(sample, user, resamples=80, seed=9)
    resampled: dict[str, list[float | None]] = {name: [] for name in found}
    for times in np.concatenate(list(draws(int(units.max()) + 1, 80, seed=9))):
        weight = sample.weight * times[units]
        again = Sample.of(sample.label, sample.prediction, weight)
        resampled["ne"].append(metrics.normalized_entropy(again).number)
        resampled["auc"].append(metrics.auc(again).number)
        resampled["gauc"].append(metrics.gauc(again, bootstrap.user_codes(user)).number)
        resampled["calibration"].append(metrics.calibration(again).number)
        resampled["log_loss"].append(metrics.log_loss(again).number)
    for name, estimate in found.items():
        low, high = np.quantile(np.array(resampled[name], dtype=float), [0.025, 0.975])
        assert estimate.interval is not None
        assert (estimate.interval.low, estimate.interval.high) == pytest.approx((low, high), rel=1e-9)
        assert estimate.value.number is not None
        assert low < estimate.value.number < high


def test_same_seed_same_intervals_whatever_the_order_of_the_rows() -> None:
    sample, user = log(1)
    known = user.notna().to_numpy()
    sample, user = Sample(sample.label[known], sample.prediction[known], sample.weight[known]), user[known]
    order = np.random.default_rng(0).permutation(len(sample))
    shuffled = Sample(sample.label[order], sample.prediction[order], sample.weight[order])
    first = estimates(sample, user, 50, seed=1)["auc"].interval
    second = estimates(shuffled, user.iloc[order], 50, seed=1)["auc"].interval
    assert first is not None
    assert second is not None
    assert (second.low, second.high) == pytest.approx((first.low, first.high), rel=1e-12)


def test_interval_of_the_calibration_covers_the_truth_about_as_often_as_it_says() -> None:
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        shift = rng.normal(0, 0.15, 60).repeat(10)
        label = (rng.random(600) < np.clip(0.3 + shift, 0, 1)).astype(float)
        found = estimates(Sample.of(label, np.full(600, 0.3)), np.arange(600) // 10, 200, seed)
        interval = found["calibration"].interval
        assert interval is not None
        covered += interval.low <= 1.0 <= interval.high
    assert 0.88 <= covered / 200 <= 0.99


def test_users_as_units_give_wider_intervals_than_rows_when_users_differ() -> None:
    sample, user = log(2, n=3000, users=30)
    sample = Sample(sample.label, np.full(len(sample), 0.3), sample.weight)
    by_user = estimates(sample, user, 200, 0)["calibration"].interval
    by_row = estimates(sample, pd.Series([None] * len(sample), dtype="Int64"), 200, 0)["calibration"].interval
    assert by_user is not None
    assert by_row is not None
    assert by_user.high - by_user.low > 1.3 * (by_row.high - by_row.low)


def test_paired_difference_is_zero_for_equal_predictions_and_negative_for_the_better_one() -> None:
    sample, user = log(3, n=3000, users=300)
    same = paired(sample, sample, user, 100, 0)
    assert same.ne_difference.interval is not None
    assert (same.ne_difference.interval.low, same.ne_difference.interval.high) == (0.0, 0.0)
    assert same.ne_ratio.value.number == 1.0
    worse = Sample(sample.label, np.random.default_rng(0).permutation(sample.prediction), sample.weight)
    result = paired(sample, worse, user, 200, 0)
    for estimate, sign in [(result.ne_difference, -1), (result.auc_difference, 1)]:
        assert estimate.interval is not None
        assert sign * estimate.interval.low > 0
        assert sign * estimate.interval.high > 0
    assert result.ne_ratio.interval is not None
    assert result.ne_ratio.interval.high < 1


def test_pairing_is_narrower_than_the_difference_of_two_independent_intervals() -> None:
    sample, user = log(4, n=3000, users=300)
    other = Sample(sample.label, np.clip(sample.prediction * 1.05, 0, 1), sample.weight)
    pair = paired(sample, other, user, 200, 0).ne_difference.interval
    alone = estimates(sample, user, 200, 0)["ne"].interval
    assert pair is not None
    assert alone is not None
    assert pair.high - pair.low < 0.5 * (alone.high - alone.low)


def test_paired_refuses_rows_that_differ() -> None:
    sample, user = log(5)
    with pytest.raises(ValueError, match="same labels and weights"):
        paired(sample, Sample(1 - sample.label, sample.prediction, sample.weight), user, 10, 0)


def test_what_cannot_be_resampled_says_why() -> None:
    one_user = estimates(Sample.of([0, 1], [0.1, 0.2]), [5, 5], 50, 0)["auc"]
    assert (one_user.value.number, one_user.interval, one_user.missing) == (1.0, None, Reason.ONE_UNIT)
    lone_positive = estimates(Sample.of([1, 0, 0, 0], [0.1] * 4), [1, 2, 3, 4], 200, 0)
    assert lone_positive["ne"].missing is Reason.FEW_RESAMPLES
    assert lone_positive["log_loss"].interval is not None
    one_class = estimates(Sample.of([0, 0], [0.1, 0.2]), [1, 2], 50, 0)
    assert one_class["ne"].missing is Reason.ONE_CLASS
    broken = paired(Sample.of([0, 1], [np.nan, 0.2]), Sample.of([0, 1], [0.1, 0.2]), [1, 2], 50, 0)
    assert broken.ne_difference.value.reason is Reason.NON_FINITE_PREDICTION
    assert broken.ne_incumbent.defined
    assert estimates(Sample.of([], []), [], 50, 0)["ne"].missing is Reason.NO_ROWS


def test_a_thousand_resamples_of_thirty_thousand_rows_take_seconds() -> None:
    sample, user = log(6, n=30_000, users=400)
    start = time.perf_counter()
    estimates(sample, user, 1000, 0)
    assert time.perf_counter() - start < 10
