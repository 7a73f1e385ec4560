"""Shared parts of planted benchmarks, and what the pyramid's plant promises."""

import pytest
import torch
from torch import Tensor, nn

from benchmarks import pyramid
from benchmarks.planted import fit, judge, paired_interval


def separable(generator: torch.Generator, rows: int) -> tuple[tuple[Tensor, ...], Tensor]:
    x = torch.randn(rows, 2, generator=generator)
    return (x,), (x[:, 0] > 0).float()


class Line(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([-1.0, 1.0]))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


def test_fit_learns_what_can_be_learned_and_repeats_itself() -> None:
    first, second = Line(), Line()
    before, _ = judge(first, separable, rows=500, seed=1)
    losses = fit(first, separable, steps=150, rows=64, rate=0.1, seed=0)
    assert fit(second, separable, steps=150, rows=64, rate=0.1, seed=0) == losses
    after, loss = judge(first, separable, rows=500, seed=1)
    assert before < 0.3 and after > 0.95 and loss < 0.3


def test_interval_is_students() -> None:
    mean, (low, high) = paired_interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert (high - low) / 2 == pytest.approx(4.302653 / 3**0.5)
    with pytest.raises(ValueError, match="two"):
        paired_interval([1.0])


def test_habits_repeat_a_period_later_and_nothing_else_tells_them_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyramid, "NOISE", 0.0)
    habit = torch.arange(400) % 2 == 0
    x = pyramid.chains(torch.Generator().manual_seed(0), habit)
    assert x.shape == (400, pyramid.EVENTS, pyramid.WIDTH) and pyramid.BLOCK < pyramid.PERIOD
    same = (x[:, pyramid.PERIOD :] == x[:, : -pyramid.PERIOD]).all(2).float().mean(1)
    assert (same[habit] == 1).all() and not same[~habit].any()
    for start in range(0, pyramid.EVENTS, pyramid.BLOCK):  # within a block no segment recurs, whoever the user is
        block = x[:, start : start + pyramid.BLOCK]
        runs = 1 + (block[:, 1:] != block[:, :-1]).any(2).sum(1)
        assert [len(torch.unique(one, dim=0)) for one in block] == runs.tolist()


def test_counted_cost_keeps_below_the_geometric_series_and_arms_have_equal_flops() -> None:
    costs = pyramid._costs()
    assert 1.5 < costs["cost_over_base_2"] <= 2.0 and 1.2 < costs["cost_over_base_4"] <= 4 / 3
    assert 1.0 <= pyramid._flops("flat") / pyramid._flops("pyramid") < 1.05
