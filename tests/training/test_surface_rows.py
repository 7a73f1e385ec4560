"""Rows of surfaces: each takes AdamW's steps on its own data, and data of others moves nothing of it."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from training.optim import FIRST_STEPS, DenseOptimizer
from training.recipes import Recipe, gem_tiny

RECIPE = replace(gem_tiny(), dense_lr=0.03, weight_decay=0.1, clip_norm=0.5, warmup_steps=3, average=0.8)
SURFACES = 3
SHAPES = {"bias": (SURFACES, 2), "own": (SURFACES, 2, 4)}


class Model:
    """A shared matrix and vectors and matrices of three surfaces, with an optimizer."""

    def __init__(self, recipe: Recipe = RECIPE) -> None:
        generator = torch.Generator().manual_seed(3)
        self.parameters = {"shared": nn.Parameter(torch.randn(4, 2, generator=generator))}
        self.parameters |= {n: nn.Parameter(torch.randn(shape, generator=generator)) for n, shape in SHAPES.items()}
        self.optimizer = DenseOptimizer(self.parameters, recipe, SHAPES)

    def loss(self, surface: int, x: torch.Tensor) -> torch.Tensor:
        """A loss of one surface's data."""
        shared, bias, own = (self.parameters[name] for name in ("shared", "bias", "own"))
        return ((x @ shared + bias[surface]) @ own[surface]).square().sum()

    def step(self, surfaces: list[int], x: torch.Tensor) -> float:
        with self.optimizer.training():
            sum(self.loss(surface, x[surface]) for surface in surfaces).backward()
            return self.optimizer.step()

    def held(self, surface: int) -> dict[str, torch.Tensor]:
        """All that belongs to a surface: weights at rest, trained ones, moments, step count."""
        state = {n: t for n, t in self.optimizer.state().items() if n.split(".")[1] != "shared"} | self.parameters
        return {n: t.detach()[surface].clone() for n, t in state.items() if n not in ("shared", "dense_optim.steps")}


def data(steps: int) -> torch.Tensor:
    return torch.randn(steps, SURFACES, 5, 4, generator=torch.Generator().manual_seed(9))


def test_training_on_others_moves_nothing_of_a_surface() -> None:
    model = Model()
    for x in data(3):
        model.step([0, 1], x)
    before, other = model.held(1), model.held(0)
    assert len(before) == 2 + 2 * 3 + 1 and all(value.abs().sum() > 0 for value in before.values())
    for x in data(6):
        model.step([0, 2], 50 * x)
    for name, value in model.held(1).items():
        assert torch.equal(value, before[name]), name
        assert not torch.equal(model.held(0)[name], other[name]), name


def test_equals_an_adam_for_each_surface_that_steps_when_it_is_present() -> None:
    """The reference: each surface's rows are parameters of their own, with their own clipping, rate and average."""
    torch.manual_seed(1)
    model, taken = Model(), [0] * SURFACES
    rows = {(n, s): nn.Parameter(model.parameters[n].detach()[s].clone()) for n in SHAPES for s in range(SURFACES)}
    average = {key: row.detach().clone() for key, row in rows.items()}
    adams = [
        torch.optim.AdamW(
            [
                {"params": [rows["own", s]], "weight_decay": RECIPE.weight_decay},
                {"params": [rows["bias", s]], "weight_decay": 0.0},
            ],
            betas=RECIPE.adam_betas,
        )
        for s in range(SURFACES)
    ]
    for number, x in enumerate(data(25)):
        present = [s for s in range(SURFACES) if number % (s + 1) == 0]
        with model.optimizer.training():
            shared = model.parameters["shared"].detach().clone()
        for s in present:
            ((x[s] @ shared + rows["bias", s]) @ rows["own", s]).square().sum().backward()
            nn.utils.clip_grad_norm_([rows["bias", s], rows["own", s]], RECIPE.clip_norm)
            taken[s] += 1
            for group in adams[s].param_groups:
                group["lr"] = RECIPE.dense_lr * min(1.0, taken[s] / (RECIPE.warmup_steps + 1))
            adams[s].step()
            adams[s].zero_grad()
            kept = min(RECIPE.average, taken[s] / (taken[s] + FIRST_STEPS))
            for name in SHAPES:
                average[name, s].lerp_(rows[name, s].detach(), 1 - kept)
        model.step(present, x)
    assert model.optimizer.surfaces.steps.tolist() == taken and len(set(taken)) > 1
    trained = dict(zip(model.optimizer.parameters, model.optimizer.trained, strict=True))
    for (name, s), row in rows.items():
        torch.testing.assert_close(trained[name][s], row.detach(), rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(model.parameters[name].detach()[s], average[name, s], rtol=1e-4, atol=1e-6)


def test_a_large_gradient_of_one_surface_scales_no_other() -> None:
    """Adam forgets a scale that never changes, so the second step tells."""
    found = []
    for size in (1.0, 1000.0):
        model = Model()
        model.parameters["shared"].requires_grad_(False)
        for x, factor in zip(data(2), (1.0, size), strict=True):
            model.step([0, 1], x * torch.tensor([factor, 1.0, 1.0])[:, None, None])
        found.append((model.held(0), model.held(1)))
    (small, same), (large, still) = found
    assert all(torch.equal(same[name], still[name]) for name in same)
    assert any(not torch.equal(small[name], large[name]) for name in small)


def test_the_norm_is_that_of_all_gradients() -> None:
    model, (x,) = Model(), data(1)
    with model.optimizer.training():
        (model.loss(0, x[0]) + model.loss(2, x[2])).backward()
        gradients = [p.grad.flatten() for p in model.parameters.values() if p.grad is not None]
        expected = float(torch.cat(gradients).norm())
        assert model.optimizer.step() == pytest.approx(expected, rel=1e-5)


def test_a_row_that_is_not_finite_stops_before_anything_moves() -> None:
    model, (first, second) = Model(), data(2)
    model.step([0, 1], first)
    before = [model.held(s) for s in range(SURFACES)]
    second[1] = float("nan")
    assert not torch.isfinite(torch.tensor(model.step([0, 1], second)))
    for surface, held in enumerate(before):
        assert all(torch.equal(value, held[name]) for name, value in model.held(surface).items())


def test_a_restored_optimizer_goes_on_as_if_it_had_not_stopped() -> None:
    whole, first, second = Model(), Model(), Model()
    batches = data(8)
    for number, x in enumerate(batches):
        whole.step([number % 3], x)
        if number < 5:
            first.step([number % 3], x)
    with torch.no_grad():
        for name, tensor in second.optimizer.state().items():
            tensor.copy_(first.optimizer.state()[name])
        for name, parameter in second.parameters.items():
            parameter.copy_(first.parameters[name])
    for number, x in enumerate(batches[5:], start=5):
        second.step([number % 3], x)
    assert all(torch.equal(second.parameters[name], tensor) for name, tensor in whole.parameters.items())


def test_parameters_must_agree_on_the_surfaces() -> None:
    rows = {"a": nn.Parameter(torch.zeros(2, 1)), "b": nn.Parameter(torch.zeros(3, 1))}
    with pytest.raises(ValueError, match=r"\[2, 3\] rows"):
        DenseOptimizer(rows, RECIPE, rows)
