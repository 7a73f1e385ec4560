"""A pyramid of parallel modules over a long history: fine and near at the bottom, coarse and far at the top.

Level 0 holds a history's T tokens; each further level holds r times fewer, every token of it made of r neighbours of
the level below, counted from the newest. Blocks have the same size on every level, so a block of level j covers block
x r^j events and the top sees the whole history where blocks alone see 64 events. On each level modules run side by
side: attention inside blocks or a window, GDPA against the request's context, a low-rank factorisation machine across
the tokens of a block. Some summary tokens of every level are kept. What a level does for each token, its merging
included, costs r times less than on the level below, so all levels cost at most r / (r - 1) of the lowest.

Source: GEM 2025 names "stacks of parallel interaction modules in a pyramid for offline sequence features" and no more;
the rest is chosen here. Shapes: N blocks of L slots, d width, R rows, c context tokens, t summary tokens a level.
"""

import torch
from torch import Tensor, nn

from models.layers.attention import BlockSelfAttention, SelfAttention, WindowSelfAttention
from models.layers.blocks import BlockLayout
from models.layers.gdpa import GDPA
from models.layers.norm import normalise
from models.layers.pooling import SeedPooling
from models.layers.rotary import Rotation
from models.layers.wukong import low_rank_fm


class TokenInteraction(nn.Module):
    """x + W (Z Z^T Y / sqrt(d)), Z the normalised tokens of a block: products of all pairs in O(L d k).

    Args:
        dim: d.
        block: L; Y has a row for each place in a block.
        rank: k.
    """

    def __init__(self, dim: int, block: int, rank: int) -> None:
        super().__init__()
        self.factors_LK = nn.Parameter(torch.randn(block, rank) * block**-0.5)
        self.out = nn.Linear(rank, dim, bias=False)

    def forward(self, x_NLD: Tensor, layout: BlockLayout) -> Tensor:
        """[N, L, d] -> [N, L, d]; empty slots take part in no product."""
        z_NLD = normalise(x_NLD) * layout.mask[..., None]
        result: Tensor = x_NLD + self.out(low_rank_fm(z_NLD, self.factors_LK) * z_NLD.shape[2] ** -0.5)
        return result


class PyramidLevel(nn.Module):
    """Parallel modules, each weighed token by token, and the merging of what leaves them.

    Args:
        dim: d.
        heads: heads of attention and GDPA.
        block: L.
        window: reach of attention; None for attention inside blocks.
        rank: k of the token interaction.
        ratio: tokens merged into one of the next level; None at the top.
    """

    def __init__(self, *, dim: int, heads: int, block: int, window: int | None, rank: int, ratio: int | None) -> None:
        super().__init__()
        self.attention: SelfAttention = (
            BlockSelfAttention(dim, heads) if window is None else WindowSelfAttention(dim, heads, window)
        )
        self.gdpa = GDPA(dim, heads)
        self.interaction = TokenInteraction(dim, block, rank)
        self.gate = nn.Linear(dim, 3)
        nn.init.zeros_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)
        self.ratio = ratio
        self.merge = None if ratio is None else nn.Linear(ratio * dim, dim, bias=False)

    def forward(
        self, x_NLD: Tensor, layout: BlockLayout, context_RCD: Tensor, rotation: Rotation | None = None
    ) -> Tensor:
        """Tokens plus what each module adds to them, times its gate: [N, L, d]. All gates are 1 at initialisation."""
        made = [
            self.attention(x_NLD, layout, rotation),
            self.gdpa(x_NLD, context_RCD, layout.row),
            self.interaction(x_NLD, layout),
        ]
        gates = 2.0 * self.gate(normalise(x_NLD)).sigmoid()
        result = x_NLD
        for gate, module in zip(gates.split(1, dim=-1), made, strict=True):
            result = result + gate * (module - x_NLD)
        return result

    def rise(self, x_NLD: Tensor, layout: BlockLayout, rotation: Rotation | None) -> tuple[Tensor, Rotation | None]:
        """Tokens of the next level, in blocks of `layout.coarse(ratio)`, and their rotation: that of their newest part.

        A group without all its r members counts the missing ones, which are older than the history, as zeros.
        """
        assert self.merge is not None and self.ratio is not None, "nothing rises from the top"
        ratio = self.ratio
        present = x_NLD * layout.mask[..., None]
        merged = self.merge(present.unflatten(1, (-1, ratio)).flatten(2))
        if rotation is not None:
            newest = (part.unflatten(1, (-1, ratio))[:, :, -1] for part in rotation)
            rotation = Rotation(*(layout.gather(part, ratio) for part in newest))
        return layout.gather(merged, ratio), rotation


class Pyramid(nn.Module):
    """Summary tokens of a history, of every level.

    Args:
        dim: d.
        heads: heads of every module.
        levels: P.
        ratio: r, a divisor of the block.
        tokens: t, summary tokens a level.
        block: L, slots a block on every level.
        window: reach of attention on every level; None for attention inside blocks.
        rank: k of the token interactions.
        seeds: m of the poolings.
        terms: terms of their SumKronLinear.
    """

    def __init__(
        self,
        *,
        dim: int,
        heads: int,
        levels: int,
        ratio: int,
        tokens: int,
        block: int = 64,
        window: int | None = None,
        rank: int = 8,
        seeds: int = 16,
        terms: int = 4,
    ) -> None:
        super().__init__()
        if block % ratio:
            raise ValueError(f"blocks of {block} slots cannot be merged {ratio} by {ratio}: a token would cross blocks")
        self.levels = nn.ModuleList(
            PyramidLevel(
                dim=dim,
                heads=heads,
                block=block,
                window=window,
                rank=rank,
                ratio=ratio if level + 1 < levels else None,
            )
            for level in range(levels)
        )
        self.pools = nn.ModuleList(
            SeedPooling(dim=dim, heads=heads, seeds=seeds, tokens=tokens, terms=terms) for _ in range(levels)
        )

    def climb(
        self, x_NLD: Tensor, layout: BlockLayout, context_RCD: Tensor, rotation: Rotation | None = None
    ) -> list[tuple[Tensor, BlockLayout]]:
        """Tokens of every level, the finest first, each with its layout."""
        found = []
        for level in self.levels:
            assert isinstance(level, PyramidLevel)
            x_NLD = level(x_NLD, layout, context_RCD, rotation)
            found.append((x_NLD, layout))
            if level.ratio is not None:
                x_NLD, rotation = level.rise(x_NLD, layout, rotation)
                layout = layout.coarse(level.ratio)
        return found

    def forward(
        self, x_NLD: Tensor, layout: BlockLayout, context_RCD: Tensor, rotation: Rotation | None = None
    ) -> Tensor:
        """Blocks [N, L, d], context [R, c, d] -> [R, P t, d], the finest level's tokens first; zeros for empty rows."""
        reached = self.climb(x_NLD, layout, context_RCD, rotation)
        return torch.cat([pool(x, at) for pool, (x, at) in zip(self.pools, reached, strict=True)], dim=1)
