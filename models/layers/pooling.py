"""A history of any length -> a few tokens: learned seeds attend to it.

Hierarchical seed pooling (HSP) takes many seeds and lets a Kronecker map make few tokens of them; its control, pooling
by multi-head attention (PMA), takes as many seeds as tokens. Softmax over a row is computed from sums over its blocks,
so no row is padded. Sources: Kunlun, arXiv 2602.10016 (summaries); Set Transformer, arXiv 1810.00825 (PMA).
"""

import torch
from torch import Tensor, nn

from models.layers.attention import split_heads
from models.layers.blocks import BlockLayout
from models.layers.norm import normalise

TINY = 1e-9


class SumKronLinear(nn.Module):
    """Y = sum over i of Z_i^T H W_i: [*, m, d] -> [*, t, d] with r (m t + d^2) parameters.

    Args:
        seeds: m.
        tokens: t.
        dim: d.
        terms: r.
    """

    def __init__(self, seeds: int, tokens: int, dim: int, terms: int) -> None:
        super().__init__()
        self.left = nn.Parameter(torch.randn(terms, seeds, tokens) * (seeds * terms) ** -0.5)
        self.right = nn.Parameter(torch.randn(terms, dim, dim) * dim**-0.5)

    def forward(self, h_BMD: Tensor) -> Tensor:
        """[B, m, d] -> [B, t, d]."""
        turned = torch.einsum("bmd,ide->bime", h_BMD, self.right)
        return torch.einsum("imt,bime->bte", self.left, turned)


class SeedAttention(nn.Module):
    """Learned seeds that ask a history: what both poolings share.

    Args:
        dim: d.
        heads: attention heads.
        seeds: m.
    """

    def __init__(self, dim: int, heads: int, seeds: int) -> None:
        super().__init__()
        self.heads = heads
        self.seeds_MD = nn.Parameter(torch.randn(seeds, dim))
        self.keys_values = nn.Linear(dim, 2 * dim, bias=False)

    def attend(self, x_NLD: Tensor, layout: BlockLayout) -> Tensor:
        """What each seed sees of each row: [R, m, d]."""
        k, v = (split_heads(part, self.heads) for part in self.keys_values(normalise(x_NLD)).chunk(2, -1))
        q = normalise(split_heads(self.seeds_MD, self.heads))
        # Normalised queries and keys bound a score by sqrt(d / heads), so exp needs no maximum taken away.
        scores = q @ normalise(k).transpose(-1, -2) * q.shape[-1] ** -0.5
        weights = scores.exp() * layout.mask[:, None, None, :]
        total = layout.sum_by_row(weights @ v)
        mass = layout.sum_by_row(weights.sum(-1, keepdim=True))
        return (total / mass.clamp(min=TINY)).transpose(1, 2).flatten(2)


class SeedPooling(SeedAttention):
    """HSP: summary tokens of every row's history; zeros for a row without events.

    Args:
        dim: d.
        heads: attention heads.
        seeds: m, more than t.
        tokens: t.
        terms: r of SumKronLinear.
    """

    def __init__(self, *, dim: int, heads: int, seeds: int, tokens: int, terms: int) -> None:
        super().__init__(dim, heads, seeds)
        self.combine = SumKronLinear(seeds, tokens, dim, terms)

    def forward(self, x_NLD: Tensor, layout: BlockLayout) -> Tensor:
        """Blocks [N, L, d] -> [R, t, d]."""
        result: Tensor = self.combine(self.attend(x_NLD, layout))
        return result


class AttentionPooling(SeedAttention):
    """PMA, the control: one seed a token; zeros for a row without events.

    Args:
        dim: d.
        heads: attention heads.
        tokens: t.
    """

    def __init__(self, dim: int, heads: int, tokens: int) -> None:
        super().__init__(dim, heads, tokens)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x_NLD: Tensor, layout: BlockLayout) -> Tensor:
        """Blocks [N, L, d] -> [R, t, d]."""
        result: Tensor = self.out(self.attend(x_NLD, layout))
        return result
