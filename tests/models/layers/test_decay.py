"""Decayed sums against a loop, their calibration against growth of a log, and learned taus."""

import math

import pytest
import torch

from models.layers.decay import RATE_UNIT, DecayedSums

TAUS = (1.0, 30.0)


def reference(module: DecayedSums, ages: list[float], types: list[int], span: float) -> list[float]:
    """Features of one owner, in plain Python."""
    taus, weight = module.taus().tolist(), module.log_weight.detach().exp()
    sums = [
        sum(math.exp(-a / tau) * float(weight[t, k]) for a, t in zip(ages, types, strict=True))
        for k, tau in enumerate(taus)
    ]
    span = max(span, 1.0)
    rates = [s / (tau * (1 - math.exp(-span / tau))) for s, tau in zip(sums, taus, strict=True)]
    last, first = (min(ages), max(ages)) if ages else (0.0, 0.0)
    interval = (first - last) / (len(ages) - 1) if len(ages) > 1 else 0.0
    due = math.log1p(last / (interval + 1.0)) if len(ages) > 1 else 0.0
    recency = [math.exp(-last / tau) if ages else 0.0 for tau in taus]
    extra = [float(bool(ages)), math.log1p(len(ages)), math.log1p(last), math.log1p(interval), due]
    return [*map(math.log1p, sums), *(math.log1p(r / RATE_UNIT) for r in rates), *recency, *extra]


def test_equals_a_loop() -> None:
    torch.manual_seed(0)
    module = DecayedSums(TAUS, 3)
    torch.nn.init.normal_(module.log_weight)
    owner = torch.randint(0, 5, (40,))
    owner[owner == 2] = 1  # owner 2 has nothing
    ages, types, span = torch.rand(40) * 90, torch.randint(0, 3, (40,)), torch.tensor([0.1, 90, 0, 90, 500])
    got = module(owner, ages, types, span)
    assert got.shape == (5, module.width)
    for o in range(5):
        mine = owner == o
        expected = reference(module, ages[mine].tolist(), types[mine].tolist(), float(span[o]))
        assert got[o].tolist() == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_rates_do_not_grow_with_the_log_but_sums_do() -> None:
    module = DecayedSums((180.0,), 1)

    def features(days: int) -> torch.Tensor:
        ages = torch.arange(days, dtype=torch.float) + 0.5
        zeros = torch.zeros(days, dtype=torch.long)
        return module(zeros, ages, zeros, torch.tensor([float(days)]))[0]

    short, long = features(30), features(300)
    assert long[0] - short[0] > 1.0
    assert short[1].item() == pytest.approx(math.log1p(1 / RATE_UNIT), rel=1e-3)
    assert long[1].item() == pytest.approx(short[1].item(), rel=1e-3)


def test_taus_and_type_weights_are_learned() -> None:
    module = DecayedSums(TAUS, 2)
    zeros = torch.zeros(3, dtype=torch.long)
    module(zeros, torch.tensor([1.0, 5.0, 20.0]), zeros, torch.tensor([30.0])).sum().backward()
    assert module.log_tau.grad is not None and (module.log_tau.grad != 0).all()
    assert module.log_weight.grad is not None and (module.log_weight.grad[0] != 0).all()
    assert not module.log_weight.grad[1].any()


def test_nothing_is_finite_zero() -> None:
    none = torch.zeros(0, dtype=torch.long)
    assert not DecayedSums(TAUS, 1)(none, torch.zeros(0), none, torch.zeros(4)).any()
