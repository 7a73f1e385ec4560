"""Judging several models on identical rows: against plain formulas, and blind to what comes later."""

from datetime import date

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, logit

from benchmarks.rivals import judge
from benchmarks.rivals.dataset import Span, Truth, Weeks, unit_hash, weeks_of
from features.errors import GemlineError
from training.platt import platt

ROWS = 4000


@pytest.fixture
def truth() -> Truth:
    rng = np.random.default_rng(1)
    week = np.sort(rng.integers(44, 49, ROWS))
    return Truth(
        label=(rng.random(ROWS) < 0.2).astype(np.float64),
        weight=rng.choice([1.0, 200.0], ROWS),
        user_id=rng.integers(0, 50, ROWS),
        week=week,
        sold=rng.random(ROWS) < 0.8,
        surface=np.full(ROWS, "mailer", dtype=object),
    )


def _given(seeds: int) -> np.ndarray:
    return np.random.default_rng(seeds).uniform(0.01, 0.9, (seeds, ROWS))


def _loss(truth: Truth, p: np.ndarray) -> float:
    return float(-(truth.weight * (truth.label * np.log(p) + (1 - truth.label) * np.log1p(-p))).sum())


def test_the_ratio_is_that_of_mean_losses_and_its_interval_holds_it(truth: Truth) -> None:
    own, other = _given(3), _given(2)
    found = judge.ne_ratio(truth, own, other)
    expected = np.mean([_loss(truth, p) for p in own]) / np.mean([_loss(truth, p) for p in other])
    assert_allclose(found.value, expected)
    assert_allclose(found.value, judge.scores(truth, own).ne / judge.scores(truth, other).ne)
    assert found.low < found.value < found.high


def test_the_gain_in_auc_is_that_of_paired_seeds(truth: Truth) -> None:
    own, other = _given(3), np.where(truth.label, 0.6, 0.5) * _given(2)[:1].repeat(3, axis=0)
    found = judge.auc_gain(truth, own, other)
    assert_allclose(found.value, judge.scores(truth, own).auc - judge.scores(truth, other).auc)
    assert found.low < found.value < found.high < 0
    same = judge.auc_gain(truth, own, own)
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)


def test_a_model_against_itself_is_even_without_doubt(truth: Truth) -> None:
    found = judge.ne_ratio(truth, _given(1), _given(1))
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)


def test_the_interval_counts_households_not_rows(truth: Truth) -> None:
    """The same rows four times tell nothing new: copies of a household's rows leave the interval as wide."""
    own, other = _given(1), _given(2)[:1]
    once = judge.ne_ratio(truth, own, other)
    parts = {name: np.tile(getattr(truth, name), 4) for name in vars(truth)}
    again = judge.ne_ratio(Truth(**parts), np.tile(own, 4), np.tile(other, 4))
    assert_allclose([again.low, again.high], [once.low, once.high])


def test_calibration_is_the_ratio_of_sums(truth: Truth) -> None:
    given = _given(2)
    expected = (truth.weight * given.mean(axis=0)).sum() / (truth.weight * truth.label).sum()
    assert_allclose(judge.calibration(truth, given).value, expected)


def test_a_week_is_recalibrated_by_earlier_weeks_alone(truth: Truth) -> None:
    given = _given(1)
    before = judge.rolling_platt(truth, given)
    late = truth.week == truth.week.max()
    parts = {name: getattr(truth, name) for name in vars(truth)}
    flipped = Truth(**(parts | {"label": np.where(late, 1 - truth.label, truth.label)}))
    after = judge.rolling_platt(flipped, given)
    assert_allclose(after, before)
    first = truth.week == truth.week.min()
    assert_allclose(before[:, first], given[:, first])
    second = truth.week == truth.week.min() + 1
    slope, shift = platt(logit(given[0, first]), truth.label[first], truth.weight[first], ridge=0.0)
    assert_allclose(before[0, second], expit(slope * logit(given[0, second]) + shift))


def test_judged_weeks_follow_the_fitted_ones() -> None:
    with pytest.raises(GemlineError, match="must follow"):
        Span(Weeks(5, 43), Weeks(43, 44))


def test_weeks_begin_on_mondays_as_the_promotions_count_them() -> None:
    assert Weeks(44, 53).days[0] == "2017-10-23"
    assert Weeks(44, 53).days[-1] == "2017-12-31"
    days = [date(2016, 12, 26), date(2017, 1, 1), date(2017, 1, 2)]
    assert weeks_of(np.array([day.toordinal() for day in days])).tolist() == [1, 1, 2]


def test_a_share_of_households_is_a_share_and_a_larger_one_holds_it() -> None:
    ids = np.arange(1, 20_001)
    drawn = unit_hash(ids)
    assert abs((drawn < 0.25).mean() - 0.25) < 0.01
    assert abs(np.corrcoef(ids, drawn)[0, 1]) < 0.03
