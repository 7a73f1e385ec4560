"""Wukong layer: a low-rank factorisation machine beside a linear compression, with a residual.

Layer i holds crosses of 1 to 2^i fields: the machine doubles the order, the linear part and the residual keep the lower
ones. Source: "Wukong: Towards a Scaling Law for Large-Scale Recommendation", arXiv 2403.02545, and its public re-
implementations. Shapes: B examples, n tokens, d width, k rank.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.layers.mlp import MLP
from models.layers.norm import normalise


def low_rank_fm(x_BND: Tensor, y_NK: Tensor) -> Tensor:
    """X (X^T Y), [B, n, k]: all pairs of tokens in O(n d k), without the n x n Gram matrix; Y may be [B, n, k]."""
    return x_BND @ (x_BND.transpose(1, 2) @ y_NK)


class FactorsOfInput(nn.Module):
    """Y of each example: MLP(LN(flatten(C X))), C X being k tokens.

    Args:
        tokens: n.
        dim: d.
        rank: k.
        hidden: hidden widths of the MLP.
    """

    def __init__(self, tokens: int, dim: int, rank: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.compress = nn.Parameter(torch.randn(rank, tokens) * tokens**-0.5)
        self.mix = MLP(rank * dim, hidden, tokens * rank)

    def forward(self, x_BND: Tensor) -> Tensor:
        """[B, n, d] -> [B, n, k]."""
        factors: Tensor = self.mix(normalise((self.compress @ x_BND).flatten(1)))
        return factors.unflatten(1, (x_BND.shape[1], -1))


class WukongLayer(nn.Module):
    """X -> LN([FMB(X); LCB(X)] + R(X)), R the identity when the token count stays, else learned.

    `out_tokens` is n_F + n_L.

    Args:
        tokens: n.
        dim: d.
        fm_tokens: n_F, tokens of FMB(X) = MLP(LN(X X^T Y)).
        linear_tokens: n_L, tokens of LCB(X) = W X (no bias, no new interaction order); 0 for none.
        rank: k.
        hidden: hidden widths of the FMB's MLP.
        dropout: rate inside the MLP.
        attentive: let Y depend on the example: a free Y plus an MLP of a linearly compressed copy of X (k tokens).
        skip: have R; without it and without LCB low orders die out, which is what its removal shows.
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
        attentive: bool = False,
        skip: bool = True,
    ) -> None:
        super().__init__()
        self.out_tokens = out = fm_tokens + linear_tokens
        self.skip = skip
        self.shape = (fm_tokens, dim)
        self.factors_NK = nn.Parameter(torch.randn(tokens, rank) * tokens**-0.5)
        self.fm = MLP(tokens * rank, hidden, fm_tokens * dim, dropout)
        self.compress = nn.Parameter(torch.randn(linear_tokens, tokens) * tokens**-0.5)
        learned = skip and out != tokens
        self.residual = nn.Parameter(torch.randn(out, tokens) * tokens**-0.5) if learned else None
        self.attend = FactorsOfInput(tokens, dim, rank, hidden) if attentive else None

    def forward(self, x_BND: Tensor) -> Tensor:
        """[B, n, d] -> [B, n_F + n_L, d]."""
        y = self.factors_NK if self.attend is None else self.factors_NK + self.attend(x_BND)
        interactions = normalise(low_rank_fm(x_BND, y).flatten(1))
        made = self.fm(interactions).unflatten(1, self.shape)
        joined = torch.cat([made, self.compress @ x_BND], dim=1)
        if self.skip:
            joined = joined + (x_BND if self.residual is None else self.residual @ x_BND)
        return normalise(joined)
