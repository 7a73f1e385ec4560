"""What each task has of a day's training: of the loss, and of the gradient that reaches the shared part.

The loss is that of all steps. The gradient is taken once a day, on its first batch, at the input of the heads, where
tasks part: a backward pass through the heads alone for each task, which costs next to nothing. A task whose share is
near 1 or 0 there decides, or does not, what the trunk learns.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from training.compute import Compute, summed


class TaskShares:
    """Collected from `begin` on; a step gives its losses, the first one also its gradients."""

    def __init__(self, tasks: Sequence[str]) -> None:
        """Nothing yet, of these tasks."""
        self.tasks = tuple(tasks)
        self.begin()

    def begin(self) -> None:
        """Forget what was collected."""
        self.loss = [0.0] * len(self.tasks)
        self.gradient: list[float] | None = None

    def add(self, losses: Sequence[float]) -> None:
        """Add a step's (weighted) mean log-loss of each task."""
        self.loss = [before + now for before, now in zip(self.loss, losses, strict=True)]

    def report(self) -> dict[str, dict[str, float]]:
        """Shares of `loss` and `gradient` by task, each adding up to 1, or all 0; empty when there was no step."""
        if self.gradient is None:
            return {}
        return {
            name: dict(zip(self.tasks, _shares(values), strict=True))
            for name, values in (("loss", self.loss), ("gradient", self.gradient))
        }


def _shares(values: Sequence[float]) -> list[float]:
    total = sum(values)
    return [value / total if total > 0 else 0.0 for value in values]


class HeadInput:
    """Remembers, inside a `with`, what the heads were given: the trunk's output."""

    def __init__(self, heads: nn.Module) -> None:
        """Watch these heads."""
        self.heads = heads
        self.x: Tensor | None = None

    def __enter__(self) -> "HeadInput":
        """Start watching."""
        self._hook = self.heads.register_forward_pre_hook(self._keep)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching."""
        self._hook.remove()

    def _keep(self, _heads: nn.Module, given: tuple[Any, ...]) -> None:
        self.x = given[0]

    def gradient_norms(self, losses: Tensor, compute: Compute | None = None) -> list[float]:
        """Norm of each task's gradient at the heads' input, over the rows of all processes.

        Args:
            losses: of each task, [T], of this process's rows over the global count; their graph is kept.
            compute: this process's place; alone when not given.
        """
        assert self.x is not None
        parts = [torch.autograd.grad(loss, self.x, retain_graph=True, allow_unused=True)[0] for loss in losses]
        squares = torch.stack([losses.new_zeros(()) if part is None else part.float().square().sum() for part in parts])
        norms: list[float] = (summed(squares, compute) if compute else squares).sqrt().tolist()
        return norms
