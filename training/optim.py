"""Adam for all parameters but the embedding tables, which have an optimizer of their own (`training.fused`).

What scores, is saved and is frozen is the running average of the weights that Adam moves: the last steps of a single
pass at a constant rate are noise, which showed as calibration that swung from day to day. Source: Polyak and Juditsky,
"Acceleration of stochastic approximation by averaging", 1992; as an exponential average with a start like a mean's.
"""

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from training.recipes import Recipe
from training.surface_rows import SurfaceRows

FIRST_STEPS = 10
"""The average over n steps begins as if over n + this many, so that it leaves its random start soon."""


class DenseOptimizer:
    """Adam with gradient clipping and, on a cold start, a rising rate; surfaces' own rows by `training.surface_rows`.

    The parameters hold the average, except inside `training`, where they are the weights that are trained. Step count
    and trained weights are part of the checkpoint, so that a continued run goes on as if it had not stopped.
    """

    def __init__(self, parameters: dict[str, nn.Parameter], recipe: Recipe, by_surface: Collection[str] = ()) -> None:
        """Optimize these parameters, by name; `by_surface` names those whose first dimension is the surface."""
        shared = {name: parameters[name] for name in sorted(parameters) if name not in by_surface}
        rows = {name: parameters[name] for name in sorted(by_surface)}
        self.shared, self.surfaces = list(shared.values()), SurfaceRows(rows, recipe)
        self.parameters = shared | rows
        self.recipe = recipe
        self.steps = torch.zeros((), dtype=torch.int64)
        self.trained = [tensor.detach().clone() for tensor in self.parameters.values()]
        self._average = [tensor.detach().clone() for tensor in self.parameters.values()]
        matrices = [tensor for tensor in self.shared if tensor.dim() > 1]
        others = [tensor for tensor in self.shared if tensor.dim() <= 1]
        groups = [
            {"params": matrices, "weight_decay": recipe.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        self.adam = torch.optim.AdamW(groups, lr=recipe.dense_lr, betas=recipe.adam_betas)
        self._allocate()

    def _allocate(self) -> None:
        """Make the moments now: a checkpoint is loaded into them before the first step."""
        for tensor in self.shared:
            self.adam.state[tensor] = {
                "step": torch.zeros((), dtype=torch.float32),
                "exp_avg": torch.zeros_like(tensor),
                "exp_avg_sq": torch.zeros_like(tensor),
            }

    @contextmanager
    def training(self) -> Iterator[None]:
        """Inside, the parameters are the weights that are trained."""
        held = [tensor.data for tensor in self.parameters.values()]
        _copy(self._average, held)
        _copy(held, self.trained)
        try:
            yield
        finally:
            _copy(self.trained, held)
            _copy(held, self._average)

    def change(self, change: Callable[[], None]) -> None:
        """Change the parameters themselves, as no step does: both the average and the weights that are trained."""
        change()
        with self.training():
            change()

    def step(self) -> float:
        """Clip, update, average, forget the gradients; inside `training`.

        Returns:
            The norm of the gradient before clipping; when it is not finite, nothing was updated.
        """
        own = self.surfaces.norms()
        norm = math.hypot(float(nn.utils.clip_grad_norm_(self.shared, self.recipe.clip_norm)), float(own.norm()))
        if not math.isfinite(norm):
            return norm
        self.steps += 1
        rise = min(1.0, self.steps.item() / (self.recipe.warmup_steps + 1))
        for group in self.adam.param_groups:
            group["lr"] = self.recipe.dense_lr * rise
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        steps = self.steps.item()
        kept = min(self.recipe.average, steps / (steps + FIRST_STEPS))
        averages, rows = self._average[: len(self.shared)], self._average[len(self.shared) :]
        torch._foreach_lerp_(averages, [tensor.data for tensor in self.shared], 1.0 - kept)
        self.surfaces.step(own, rows, FIRST_STEPS)
        return norm

    def state(self) -> dict[str, Tensor]:
        """Moments and counts by canonical name; the tensors themselves, so loading into them restores."""
        found = {"steps": self.steps} | self.surfaces.state()
        for (name, tensor), trained in zip(self.parameters.items(), self.trained, strict=True):
            found[f"{name}.trained"] = trained
            found |= {f"{name}.{key}": value for key, value in self.adam.state.get(tensor, {}).items()}
        return {f"dense_optim.{name}": value for name, value in found.items()}


def _copy(to: list[Tensor], source: list[Tensor]) -> None:
    torch._foreach_copy_(to, source)
