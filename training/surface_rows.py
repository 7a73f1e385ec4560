"""AdamW by rows, for parameters whose first dimension is the surface: a surface's rows are moved by its data alone.

Adam with a zero gradient still moves a weight, by its old moments, decays it and counts a step; for a surface without
rows in the batch that would be training on the data of others. So here each surface has its own step count, and where
it is absent nothing of it moves, to the last bit: weights, moments, decay and average. Clipping is by the norm of one
surface's rows, so that a large gradient of one does not shrink another's.

A surface is absent when the gradient of all its rows is exactly zero. The gradient is that of the global batch, the
same on all ranks after it was averaged, so ranks agree without another exchange: a sum of zeros is exactly zero, and
a surface with a due label has a gradient in the bias of its head.
"""

import torch
from torch import Tensor, nn

from training.recipes import Recipe

EPSILON = 1e-8
"""Added to the root of the second moment, as in PyTorch's Adam."""


class SurfaceRows:
    """AdamW in which each surface takes its own steps.

    Attributes:
        parameters: by name, [S, ...] each.
        steps: taken by each surface, int64 [S].
        moments: first and second, by name.
    """

    def __init__(self, parameters: dict[str, nn.Parameter], recipe: Recipe) -> None:
        """Optimize these parameters.

        Raises:
            ValueError: they do not have one row a surface.
        """
        sizes = {len(tensor) for tensor in parameters.values()}
        if len(sizes) > 1:
            raise ValueError(f"parameters by surface have {sorted(sizes)} rows; each needs one row a surface")
        self.parameters, self.recipe = parameters, recipe
        self.steps = torch.zeros(max(sizes, default=0), dtype=torch.int64)
        self.moments = {
            name: (torch.zeros_like(tensor), torch.zeros_like(tensor)) for name, tensor in parameters.items()
        }

    def norms(self) -> Tensor:
        """Norm of the gradient of each surface's rows, [S]; exactly zero where the surface is absent."""
        parts = [_rows(_gradient(tensor)).norm(dim=1) for tensor in self.parameters.values()]
        return torch.stack(parts).norm(dim=0) if parts else torch.zeros(0)

    @torch.no_grad()
    def step(self, norms: Tensor, averages: list[Tensor], first_steps: int) -> None:
        """Clip, update and average the rows of surfaces with a gradient; forget the gradients.

        Args:
            norms: what `norms` gave, all finite.
            averages: running averages of the parameters, in their order; changed in place.
            first_steps: see `training.optim.FIRST_STEPS`; counted in the surface's own steps.
        """
        rows = norms.nonzero().squeeze(1)
        self.steps[rows.cpu()] += 1
        steps = self.steps[rows.cpu()].to(norms)
        scale = (self.recipe.clip_norm / (norms[rows] + 1e-6)).clamp(max=1.0)
        rate = self.recipe.dense_lr * (steps / (self.recipe.warmup_steps + 1)).clamp(max=1.0)
        kept = (steps / (steps + first_steps)).clamp(max=self.recipe.average)[:, None]
        for (name, tensor), average in zip(self.parameters.items(), averages, strict=True):
            new = self._update(name, tensor, rows, scale, rate, steps)
            held = _rows(average)
            held.index_copy_(0, rows, held[rows].lerp(new, 1 - kept))
            tensor.grad = None

    def _update(
        self, name: str, tensor: nn.Parameter, rows: Tensor, scale: Tensor, rate: Tensor, steps: Tensor
    ) -> Tensor:
        """AdamW of rows [P] with a scale of the gradient, a rate and a step count of each; the rows after it."""
        gradient = _rows(_gradient(tensor))[rows] * scale[:, None]
        weight, first, second = (_rows(held) for held in (tensor.data, *self.moments[name]))
        one, two = self.recipe.adam_betas
        mean = first[rows].lerp(gradient, 1 - one)
        square = second[rows] * two + (1 - two) * gradient.square()
        root = (square / _debias(two, steps)).sqrt() + EPSILON
        kept = 1 - rate * self.recipe.weight_decay if tensor.dim() > 2 else torch.ones_like(rate)
        moved = weight[rows] * kept[:, None] - rate[:, None] * (mean / _debias(one, steps)) / root
        for held, new in ((weight, moved), (first, mean), (second, square)):
            held.index_copy_(0, rows, new)
        return moved

    def state(self) -> dict[str, Tensor]:
        """Step counts, `surface_steps`, and moments by name; the tensors themselves."""
        found = {"surface_steps": self.steps} if self.parameters else {}
        for name, (first, second) in self.moments.items():
            found |= {f"{name}.exp_avg": first, f"{name}.exp_avg_sq": second}
        return found


def _rows(tensor: Tensor) -> Tensor:
    """A row a surface, as a view: [S, ...] -> [S, n]."""
    return tensor.view(len(tensor), -1)


def _debias(beta: float, steps: Tensor) -> Tensor:
    """1 - beta^n, the share of a moment that n steps have filled, [P, 1]; in double precision, as PyTorch's Adam."""
    return (1 - beta ** steps.double()).to(steps)[:, None]


def _gradient(tensor: nn.Parameter) -> Tensor:
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad.contiguous()
