"""Dot products of all pairs of tokens, the interaction of DLRM.

Source: "Deep Learning Recommendation Model for Personalization and Recommendation Systems", arXiv 1906.00091.
Shapes: B examples, n tokens, d width.
"""

import torch
from torch import Tensor, nn


def pairs(x_BND: Tensor) -> Tensor:
    """Dot product of each pair of different tokens, once: [B, n (n - 1) / 2], by rows of the lower triangle."""
    first, second = torch.tril_indices(x_BND.shape[1], x_BND.shape[1], -1, device=x_BND.device)
    return (x_BND @ x_BND.transpose(1, 2))[:, first, second]


class DotInteraction(nn.Module):
    """Pairs of tokens, mixed to tokens by a linear map; the caller keeps the tokens themselves beside them.

    Args:
        tokens: n, at least 2.
        dim: d.
        out_tokens: tokens made.
    """

    def __init__(self, *, tokens: int, dim: int, out_tokens: int) -> None:
        super().__init__()
        self.out_tokens = out_tokens
        self.mix = nn.Linear(tokens * (tokens - 1) // 2, out_tokens * dim)

    def forward(self, x_BND: Tensor) -> Tensor:
        """[B, n, d] -> [B, out_tokens, d]."""
        made: Tensor = self.mix(pairs(x_BND))
        return made.unflatten(1, (self.out_tokens, x_BND.shape[2]))
