"""Resamples of households: draws with replacement, and AUC reweighted without sorting again."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.rivals import resampling
from benchmarks.rivals.resampling import auc_of, draws, resampling_units
from training import metrics
from training.metrics import Sample


def test_draws_are_users_with_replacement_whatever_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.concatenate(list(draws(37, 50, seed=4)))
    assert whole.shape == (50, 37)
    assert (whole.sum(axis=1) == 37).all()
    monkeypatch.setattr(resampling, "_CHUNK", 37 * 7)
    assert np.array_equal(whole, np.concatenate(list(draws(37, 50, seed=4))))
    assert not np.array_equal(whole, np.concatenate(list(draws(37, 50, seed=5))))


def test_rows_without_user_are_units_of_their_own() -> None:
    assert resampling_units(pd.Series([7, None, 3, 7, None], dtype="Int64")).tolist() == [1, 2, 0, 1, 3]
    big = 2**62 + 1
    assert resampling_units(pd.Series([big, big + 1, big], dtype="Int64")).tolist() == [0, 1, 0]


def test_auc_of_a_resample_is_that_of_repeated_rows() -> None:
    rng = np.random.default_rng(0)
    units, label = rng.integers(0, 20, 300), (rng.random(300) < 0.3).astype(float)
    rows = Sample.of(label, rng.integers(0, 9, 300) / 10, rng.choice([1.0, 5.0], 300))
    area = auc_of(rows, units)
    for times in next(draws(20, 5, seed=1)):
        again = Sample.of(rows.label, rows.prediction, rows.weight * times[units])
        assert area(times) == pytest.approx(metrics.auc(again).number)
