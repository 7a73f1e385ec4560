"""Adam for all parameters but the embedding tables, which have an optimizer of their own (`training.fused`)."""

import math

import torch
from torch import Tensor, nn

from training.recipes import Recipe


class DenseOptimizer:
    """Adam with gradient clipping and, on a cold start, a rising rate.

    Its step count is part of the checkpoint, so that a continued run does not warm up again.
    """

    def __init__(self, parameters: dict[str, nn.Parameter], recipe: Recipe) -> None:
        """Optimize these parameters, by name."""
        self.parameters = dict(sorted(parameters.items()))
        self.recipe = recipe
        self.steps = torch.zeros((), dtype=torch.int64)
        matrices = [tensor for tensor in self.parameters.values() if tensor.dim() > 1]
        others = [tensor for tensor in self.parameters.values() if tensor.dim() <= 1]
        groups = [
            {"params": matrices, "weight_decay": recipe.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        self.adam = torch.optim.AdamW(groups, lr=recipe.dense_lr, betas=recipe.adam_betas)
        self._allocate()

    def _allocate(self) -> None:
        """Make the moments now: a checkpoint is loaded into them before the first step."""
        for tensor in self.parameters.values():
            self.adam.state[tensor] = {
                "step": torch.zeros((), dtype=torch.float32),
                "exp_avg": torch.zeros_like(tensor),
                "exp_avg_sq": torch.zeros_like(tensor),
            }

    def step(self) -> float:
        """Clip, update, forget the gradients.

        Returns:
            The norm of the gradient before clipping; when it is not finite, nothing was updated.
        """
        norm = float(nn.utils.clip_grad_norm_(self.parameters.values(), self.recipe.clip_norm))
        if not math.isfinite(norm):
            return norm
        self.steps += 1
        rise = min(1.0, self.steps.item() / (self.recipe.warmup_steps + 1))
        for group in self.adam.param_groups:
            group["lr"] = self.recipe.dense_lr * rise
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        return norm

    def state(self) -> dict[str, Tensor]:
        """Moments and counts by canonical name; the tensors themselves, so loading into them restores."""
        found = {"dense_optim.steps": self.steps}
        for name, tensor in self.parameters.items():
            for key, value in self.adam.state[tensor].items():
                found[f"dense_optim.{name}.{key}"] = value
        return found
