"""The world of the bench `funnel`: labels follow the funnel and their true probabilities, arms are of one size."""

import pytest
import torch

from benchmarks import funnel

SALE, EARLY, INSTALL = (funnel.NAMES.index(name) for name in ("sale", "sale_within_1d", "install"))


def test_labels_follow_the_funnel_and_the_true_probabilities() -> None:
    world = funnel.World()
    rows = world.sample(60_000, 3)
    assert (rows.happened <= rows.before).all() and not rows.happened[~rows.exists].any()
    assert (rows.happened[:, EARLY] <= rows.happened[:, SALE]).all()
    batch = rows.batch(funnel.NAMES, given_parent=True)
    due = batch.mask > 0
    for task in range(len(funnel.NAMES)):
        held = due[:, task]
        expected = rows.chance[held, task].mean().item()
        assert batch.label[held, task].mean().item() == pytest.approx(expected, rel=0.15)
    # an install follows the view on one surface, a click on another, and is nowhere else
    video = rows.surface == funnel.SURFACES.index("video")
    assert due[video, INSTALL].all() and not due[video, SALE].any()
    assert not due[rows.surface == funnel.SURFACES.index("search"), INSTALL].any()


def test_the_truth_violates_nothing_and_costs_its_own_entropy() -> None:
    world = funnel.World()
    rows = world.sample(5_000, 4)
    served = funnel.unconditional(rows.chance, rows.surface, world.above)
    assert funnel.violations(served, rows, world) == 0.0
    assert funnel.violations(1.0 - served, rows, world) > 0.9
    held = rows.exists[:, SALE]
    chance, weight = rows.chance[held, SALE], rows.reach[held, SALE]
    best = funnel.entropies(chance, chance, weight)
    assert best < funnel.entropies((chance * 1.2).clamp(max=0.99), chance, weight)
    flat = torch.full_like(chance, float((weight * chance).sum() / weight.sum()))
    assert funnel.entropies(flat, chance, weight) == pytest.approx(1.0)


def test_arms_are_of_one_size() -> None:
    cost = funnel.flops(funnel.World())
    assert max(cost.values()) <= 1.03 * min(cost.values())
