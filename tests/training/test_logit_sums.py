"""Sums over bins of logits: nothing is lost at the ends, and a bin is as good as its rows."""

from dataclasses import replace

import numpy as np
import pytest

from features.transform.batch import Labels
from features.transform.schema import TaskSpec
from tests.training.conftest import schema
from training.logit_sums import BINS, DECAY, LIMIT, LogitSums
from training.platt import platt

ONE = replace(schema(), surfaces=("feed",), tasks=(TaskSpec("click", primary=True),))


def added(logits: np.ndarray, label: np.ndarray, weight: np.ndarray, mask: np.ndarray | None = None) -> LogitSums:
    sums = LogitSums.empty(ONE)
    mask = np.ones_like(label) if mask is None else mask
    labels = Labels(label[:, None], mask[:, None], weight[:, None])
    sums.add_day(np.zeros(len(label), dtype=np.int64), logits[:, None], labels)
    return sums


@pytest.mark.parametrize("spread", [1e-4, 0.03, 1.0])
def test_a_fit_over_bins_is_that_over_rows(spread: float) -> None:
    """Also where all logits share a bin, so that its middle would be off."""
    rng = np.random.default_rng(0)
    x = rng.normal(-3.03, spread, 5000)
    label = (rng.random(5000) < 0.2).astype(float)
    weight = np.where(label > 0, 1.0, 3.0)
    found = added(x, label, weight).told()["click"]["surfaces"]["feed"]
    slope, offset = platt(x, label, weight)
    lines = [
        a * np.array([x.min(), x.mean(), x.max()]) + b for a, b in ((found["slope"], found["offset"]), (slope, offset))
    ]
    np.testing.assert_allclose(*lines, atol=0.01)
    assert lines[0][1] == pytest.approx(lines[1][1], abs=1e-4)


def test_every_due_row_is_in_one_bin_and_days_fade() -> None:
    logits = np.array([-np.inf, -50.0, -LIMIT, -1e-9, 0.0, LIMIT, 50.0, np.nan, 1.0])
    label = np.array([0.0, 1, 0, 1, 0, 1, 1, 1, 1])
    mask = np.array([1.0, 1, 1, 1, 1, 1, 1, 1, 0])
    sums = added(logits, label, np.full(9, 2.0), mask)
    cells = sums.sums[0, 0]
    # what is not finite is no prediction, what is masked is not due
    assert cells.sum(axis=1).tolist() == [8.0, 4.0, 2.0 * (-LIMIT - LIMIT - 1e-9 + LIMIT + LIMIT), 4.0, 2.0]
    assert np.flatnonzero(cells[3] + cells[4]).tolist() == [0, BINS // 2 - 1, BINS // 2, BINS - 1]
    before = cells.copy()
    nothing = Labels(*(np.zeros((0, 1)) for _ in range(3)))
    sums.add_day(np.zeros(0, dtype=np.int64), np.zeros((0, 1)), nothing)
    np.testing.assert_array_equal(sums.sums[0, 0], before * DECAY)
