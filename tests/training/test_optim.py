"""The dense optimizer: what is scored is the average, what is trained goes on beside it."""

from dataclasses import replace

import torch
from torch import nn

from training.optim import FIRST_STEPS, DenseOptimizer
from training.recipes import gem_tiny


def made(average: float) -> tuple[nn.Parameter, DenseOptimizer]:
    parameter = nn.Parameter(torch.tensor([1.0, -2.0]))
    return parameter, DenseOptimizer({"w": parameter}, replace(gem_tiny(), average=average, dense_lr=0.1))


def steps(optimizer: DenseOptimizer, parameter: nn.Parameter, count: int) -> list[torch.Tensor]:
    """Steps on a quadratic; the weights that were trained, after each."""
    seen = []
    for _ in range(count):
        with optimizer.training():
            (parameter**2).sum().backward()
            optimizer.step()
            seen.append(parameter.detach().clone())
    return seen


def test_at_rest_the_parameters_are_the_running_average() -> None:
    parameter, optimizer = made(0.8)
    expected = parameter.detach().clone()
    for number, trained in enumerate(steps(optimizer, parameter, 60), start=1):
        kept = min(0.8, number / (number + FIRST_STEPS))
        expected = kept * expected + (1 - kept) * trained
    torch.testing.assert_close(parameter.detach(), expected)
    assert not torch.equal(parameter.detach(), optimizer.trained[0])


def test_without_averaging_the_parameters_are_the_trained_ones() -> None:
    parameter, optimizer = made(0.0)
    trained = steps(optimizer, parameter, 5)
    assert torch.equal(parameter.detach(), trained[-1]) and torch.equal(optimizer.trained[0], trained[-1])


def test_a_restored_optimizer_goes_on_as_if_it_had_not_stopped() -> None:
    (whole, through), (first, before), (second, after) = made(0.9), made(0.9), made(0.9)
    steps(through, whole, 12)
    steps(before, first, 5)
    with torch.no_grad():
        second.copy_(first)
        for name, tensor in after.state().items():
            tensor.copy_(before.state()[name])
    steps(after, second, 7)
    assert torch.equal(second, whole)


def test_a_step_that_is_not_finite_changes_nothing() -> None:
    parameter, optimizer = made(0.9)
    steps(optimizer, parameter, 3)
    before = parameter.detach().clone()
    with optimizer.training():
        parameter.grad = torch.full_like(parameter, float("nan"))
        assert not torch.isfinite(torch.tensor(optimizer.step()))
    assert torch.equal(parameter.detach(), before)
