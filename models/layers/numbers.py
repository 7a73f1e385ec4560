"""Numbers as soft bins: each number bends at knots of its own before numbers meet.

Trees cut a number where its effect changes; a network whose first layer mixes raw numbers has to find such places
through sums. Here every number passes through ReLU units of its own, so that a linear map after them is a sum of
piecewise linear curves, one a number. Source: "On Embeddings for Numerical Features in Tabular Deep Learning",
arXiv 2203.05556 (its L-R variant), with knots spread over the range of the transforms in `features.transform.dense`.
"""

import torch
from torch import Tensor, nn

LOWEST, HIGHEST = -3.0, 8.0
"""Where knots start: logarithms of rates and counts lie in between."""


class NumberBins(nn.Module):
    """[B, F] -> [B, F (1 + U)]: the numbers, and U bends of each.

    Args:
        width: F.
        units: U.
    """

    def __init__(self, width: int, units: int) -> None:
        super().__init__()
        self.out = width * (1 + units)
        self.knots = nn.Parameter(torch.linspace(LOWEST, HIGHEST, units + 2)[1:-1].repeat(width, 1))
        self.slopes = nn.Parameter(torch.ones(width, units))

    def forward(self, x_BF: Tensor) -> Tensor:
        """Bend the numbers."""
        bent = torch.relu(x_BF[:, :, None] * self.slopes - self.knots)
        return torch.cat([x_BF, bent.flatten(1)], dim=1)
