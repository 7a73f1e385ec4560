"""Wukong layer: a low-rank factorisation machine beside a linear compression, with a residual.

Source: "Wukong: Towards a Scaling Law for Large-Scale Recommendation", arXiv 2403.02545, and its public re-
implementations. Shapes: B examples, n tokens, d width, k rank.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.layers.mlp import MLP
from models.layers.norm import normalise


def low_rank_fm(x_BND: Tensor, y_NK: Tensor) -> Tensor:
    """X (X^T Y), [B, n, k]: all pairs of tokens in O(n d k), without the n x n Gram matrix."""
    return x_BND @ (x_BND.transpose(1, 2) @ y_NK)


class WukongLayer(nn.Module):
    """X -> LN([FMB(X); LCB(X)] + R(X)), R the identity when the token count stays, else learned.

    Args:
        tokens: n.
        dim: d.
        fm_tokens: n_F, tokens of FMB(X) = MLP(LN(X X^T Y)).
        linear_tokens: n_L, tokens of LCB(X) = W X (no bias, no new interaction order).
        rank: k.
        hidden: hidden widths of the FMB's MLP.
        dropout: rate inside the MLP.
    """

    def __init__(
        self,
        *,
        tokens: int,
        dim: int,
        fm_tokens: int,
        linear_tokens: int,
        rank: int,
        hidden: Sequence[int],
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        out = fm_tokens + linear_tokens
        self.shape = (fm_tokens, dim)
        self.factors_NK = nn.Parameter(torch.randn(tokens, rank) * tokens**-0.5)
        self.fm = MLP(tokens * rank, hidden, fm_tokens * dim, dropout)
        self.compress = nn.Parameter(torch.randn(linear_tokens, tokens) * tokens**-0.5)
        self.residual = nn.Parameter(torch.randn(out, tokens) * tokens**-0.5) if out != tokens else None

    def forward(self, x_BND: Tensor) -> Tensor:
        """[B, n, d] -> [B, n_F + n_L, d]."""
        interactions = normalise(low_rank_fm(x_BND, self.factors_NK).flatten(1))
        made = self.fm(interactions).unflatten(1, self.shape)
        kept = self.compress @ x_BND
        residual = x_BND if self.residual is None else self.residual @ x_BND
        return normalise(torch.cat([made, kept], dim=1) + residual)
