"""The worlds of the bench `experts`: what is planted, arms of one size on the same rows, and when seeds suffice."""

import pytest
import torch

from benchmarks import experts


def logits(name: str, surface: int) -> torch.Tensor:
    """True logits of the same ids, all on one surface."""
    world = experts.World(name, 3)
    world.shares = torch.tensor([1.0 - surface, float(surface)])
    return world.sample(20_000, 5).chance.logit()


def test_a_conflict_turns_ads_over_and_the_others_change_nothing() -> None:
    for name in experts.WORLDS:
        one, other = (logits(name, surface) for surface in range(2))
        if name == "conflict":
            # users and pages mean the same on both surfaces, ads and tastes the opposite
            assert torch.corrcoef(torch.stack([one, other]))[0, 1] < -0.2
        else:
            assert torch.equal(one, other)


def test_labels_have_the_true_probabilities_and_surfaces_their_shares() -> None:
    rows = experts.World("transfer", 1).sample(60_000, 3)
    assert (rows.surface == 1).double().mean().item() == pytest.approx(0.1, abs=0.01)
    for surface in range(2):
        mine = rows.own(surface)
        assert not mine.surface.any()
        assert mine.label.mean().item() == pytest.approx(mine.chance.mean().item(), rel=0.05)


def test_arms_are_of_one_size() -> None:
    assert len(set(experts.flops().values())) == 1


def test_seeds_suffice_when_errors_are_a_third_of_the_margin() -> None:
    names = [
        f"{world}_{arm}_{surface}" for world in experts.WORLDS for arm in experts.ARMS for surface in experts.SURFACES
    ]
    better = [{name: 0.9 + noise if "_experts_" in name else 1.0 for name in names} for noise in (-0.01, 0.0, 0.01)]
    assert experts.exact(better)
    alike = [{name: 1.0 + noise if "_experts_" in name else 1.0 for name in names} for noise in (-0.01, 0.0, 0.02)]
    assert not experts.exact(alike)
