"""Weight generation: few tokens that stand for many, made by a linear map over tokens and an MLP (X_sum of Kunlun).

Source: Kunlun, arXiv 2602.10016 (summaries): token-axis compression, then an MLP. The linear part is a residual, so
that a summary is useful from the first step.
"""

import torch
from torch import Tensor, nn

from models.layers.mlp import MLP
from models.layers.norm import normalise


class TokenSummary(nn.Module):
    """[B, n, d] -> [B, c, d]: C X + MLP(LN(C X)).

    Args:
        tokens: n.
        dim: d.
        out: c.
        hidden: hidden width of the MLP.
    """

    def __init__(self, *, tokens: int, dim: int, out: int, hidden: int) -> None:
        super().__init__()
        self.compress = nn.Parameter(torch.randn(out, tokens) * tokens**-0.5)
        self.mix = MLP(out * dim, (hidden,), out * dim)

    def forward(self, x_BND: Tensor) -> Tensor:
        """[B, n, d] -> [B, c, d]."""
        compressed = self.compress @ x_BND
        mixed: Tensor = self.mix(normalise(compressed).flatten(1))
        return compressed + mixed.unflatten(1, compressed.shape[1:])
