"""Multi-task heads on a shared trunk, conditioned on the surface.

The surface gates the trunk's units (2 sigmoid, 1 at the start, as in PEPNet) and has its own bias for every
task, so surfaces share what they have in common and differ where their data says so.
"""

import torch
from torch import Tensor, nn


class TaskHeads(nn.Module):
    """Logits of T tasks.

    Args:
        width: width of the trunk's output.
        tasks: T.
        surfaces: number of surfaces.
        conditioned: let the surface gate the trunk's units; without, it has its biases alone.
    """

    BY_SURFACE = ("gate.weight", "bias.weight")
    """Parameters whose first dimension is the surface."""

    def __init__(self, width: int, tasks: int, surfaces: int, *, conditioned: bool = True) -> None:
        super().__init__()
        self.gate = nn.Embedding.from_pretrained(torch.zeros(surfaces, width), freeze=False) if conditioned else None
        self.bias = nn.Embedding.from_pretrained(torch.zeros(surfaces, tasks), freeze=False)
        self.tasks = nn.Linear(width, tasks)
        nn.init.zeros_(self.tasks.bias)

    def forward(self, x: Tensor, surface: Tensor) -> Tensor:
        """[B, width] and surfaces int64 [B] -> [B, T]."""
        if self.gate is not None:
            x = x * (2.0 * self.gate(surface).sigmoid())
        logits: Tensor = self.tasks(x) + self.bias(surface)
        return logits
