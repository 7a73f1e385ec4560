"""Units and draws of users, and what intervals say when there is little to resample."""

import numpy as np
import pytest

from training.bootstrap import UNITS, draws, estimate, units_of
from training.metrics import Reason, Value


def test_a_users_unit_follows_from_its_id_and_the_seed_alone() -> None:
    ids = np.array([7, 2**62 + 1, 2**62 + 2, -5, 7], dtype=np.int64)
    units = units_of(ids, 3)
    assert units[0] == units[4]
    assert np.array_equal(units_of(ids[::-1].copy(), 3), units[::-1])
    assert not np.array_equal(units_of(ids, 4), units)


def test_users_spread_evenly_over_units_also_when_their_ids_are_in_a_row() -> None:
    for ids in (np.arange(400_000), np.arange(400_000) * 4096):
        counts = np.bincount(units_of(ids, 0), minlength=UNITS)
        mean = len(ids) / UNITS
        assert ((counts - mean) ** 2).mean() / mean == pytest.approx(1.0, abs=0.15)


def test_draws_are_poisson_and_repeatable() -> None:
    times = draws(300, seed=1)
    assert times.shape == (300, UNITS)
    assert times.mean() == pytest.approx(1.0, abs=0.01) and times.var() == pytest.approx(1.0, abs=0.02)
    assert np.array_equal(times, draws(300, seed=1))
    assert not np.array_equal(times, draws(300, seed=2))


def test_an_interval_holds_the_middle_95_percent() -> None:
    found = estimate(Value(0.5), np.linspace(0, 1, 1001), units=9)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((0.025, 0.975))
    assert found.interval.resamples == 1001


def test_what_cannot_be_resampled_says_why() -> None:
    resampled = np.linspace(0, 1, 100)
    assert estimate(Value(0.5), resampled, units=1).missing is Reason.ONE_UNIT
    few = np.where(np.arange(100) < 11, np.nan, resampled)
    assert estimate(Value(0.5), few, units=9).missing is Reason.FEW_RESAMPLES
    assert estimate(Value(0.5), np.where(np.arange(100) < 10, np.nan, resampled), units=9).interval is not None
    one_class = estimate(Value.undefined(Reason.ONE_CLASS), resampled, units=9)
    assert (one_class.interval, one_class.missing) == (None, Reason.ONE_CLASS)
