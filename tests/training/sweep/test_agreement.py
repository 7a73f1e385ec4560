"""What later days say of a small budget's pick, and what they cannot say."""

import warnings

import numpy as np
import pytest
from scipy.stats import spearmanr

from tests.training.sweep.made import outcome, ratio, row, unknown
from training.sweep.agreement import Agreement, agreement, percent, spearman
from training.sweep.trials import Outcome, Trial

FEW = "insufficient (3)"


def agreed(small: Outcome, later: Outcome) -> Agreement:
    def against(one: Trial, other: Trial) -> list:
        return [row("click", ne_ratio=ratio(one.score(("click",)) / other.score(("click",)), 0.001))]

    return agreement(small, later, against)


def test_ranks_correlate_as_in_scipy() -> None:
    rng = np.random.default_rng(0)
    for size in (2, 3, 7, 40):
        for ties in (False, True):
            a, b = rng.normal(size=(2, size))
            if ties:
                a, b = np.round(a), np.round(b)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # scipy warns of all ties
                expected = spearmanr(a, b).statistic
            found = spearman(a, b)
            assert (found is None) == np.isnan(expected)
            assert found is None or found == pytest.approx(expected)


def test_ranks_without_an_order_are_undefined() -> None:
    nothing = np.zeros(0)
    assert spearman(nothing, nothing) is None
    assert spearman(np.ones(1), np.ones(1)) is None
    assert spearman(np.ones(5), np.arange(5.0)) is None
    assert spearman(np.arange(5.0), np.ones(5)) is None


def test_a_pick_that_holds() -> None:
    found = agreed(outcome([1.0001, 1.0005, 1.01, 1.02]), outcome([1.0002, 1.0004, 1.02, 1.03]))
    assert found.correlation == pytest.approx(1.0) and found.mixes == 5 and found.same
    ranking, pick, whole, best = found.sentences()
    assert ranking == "Ranking: Spearman 1.00 over 5 mixes: the small budget ranks the mixes as the larger one does."
    assert pick == "Pick: the later days pick the same, tau 1, budget 0.8."
    assert whole == "Loss on the later days against no mixing: +0.04 % [-0.01, +0.09] of click's NE."
    assert best == ("Loss on the later days against the lowest NE, of all rows: +0.04 % [-0.06, +0.14] of click's NE.")


def test_a_pick_that_does_not_hold() -> None:
    found = agreed(outcome([1.003, 1.002, 1.001, 0.999]), outcome([1.001, 1.002, 1.003, 1.05]))
    assert found.small.name == "tau 1, budget 0.6" and found.later.name == "tau 1, budget 0.9"
    assert found.same is False
    ranking, pick, *losses = found.sentences()
    # all rows are second and first, the others in turned order: d = 1, 3, 1, 1, 4 of n = 5
    assert found.correlation == pytest.approx(1 - 6 * (1 + 9 + 1 + 1 + 16) / (5 * 24))
    assert ranking.endswith("does not carry over; sweep over more days.")
    assert pick == "Pick: the later days pick tau 1, budget 0.9 instead of tau 1, budget 0.6."
    assert "+5.00 %" in losses[0] and "+5.00 %" in losses[1]


def test_a_pick_with_the_lowest_ne_loses_nothing() -> None:
    found = agreed(outcome([1.001, 1.001, 0.99]), outcome([1.001, 1.003, 0.98]))
    assert found.best is found.held and found.small.name == "tau 1, budget 0.7"
    assert found.sentences()[-1].endswith("against the best mix: none, tau 1, budget 0.7 has the lowest NE.")


def test_all_rows_as_the_pick_is_not_compared_with_itself() -> None:
    found = agreed(outcome([1.01, 1.02, 1.03]), outcome([0.99, 1.02, 1.03]))
    assert found.small.name == "all rows"
    assert [sentence for sentence in found.sentences() if "no mixing" in sentence] == []
    assert "of tau 1, budget 0.9: +1.01 %" in found.sentences()[-1]


@pytest.mark.parametrize(
    ("small", "later"),
    [([1.001, 1.002], [1.001, 1.002]), ([1.001, 1.002, float("inf")], [1.001, 1.002, 1.003])],
)
def test_too_few_mixes_give_no_ranking(small: list[float], later: list[float]) -> None:
    budgets = []
    for ratios in (small, later):
        made = outcome([value if np.isfinite(value) else 1.0 for value in ratios])
        for trial, value in zip(made.trials[1:], ratios, strict=True):
            if not np.isfinite(value):
                trial.against[:] = [row("click")]
        budgets.append(made)
    said = agreed(*budgets).sentences()[0]
    assert said == "Ranking: insufficient (3): fewer than 4 mixes have NE on both budgets."


def test_mixes_that_all_tie_give_no_ranking() -> None:
    assert "undefined (all mixes tie)" in agreed(outcome([1.0] * 4), outcome([1.0] * 4)).sentences()[0]


def test_too_few_positives_are_said_and_not_ranked() -> None:
    ratios = [1.0001, 1.0002, 1.0003, 1.0004]
    for small, later, where in (
        (outcome(ratios, status=FEW), outcome(ratios), "on the small budget"),
        (outcome(ratios), outcome(ratios, status=FEW), "on the later days"),
    ):
        found = agreed(small, later)
        assert found.same is None and found.correlation is None and found.lost == {}
        assert found.sentences() == [
            "Ranking: insufficient (0): fewer than 4 mixes have NE on both budgets.",
            f"Pick: undefined: nothing can be picked {where} (click: {FEW}).",
            "Loss on the later days: undefined: there is no pick, or no NE to compare.",
        ]


def test_a_ratio_in_per_cent_says_when_it_has_no_interval() -> None:
    assert percent(ratio(1.0012, 0.002)) == "+0.12 % [-0.08, +0.32]"
    assert percent(unknown(0.99)) == "-1.00 % (no interval: fewer than two users)"
    assert percent(None) == ""
