"""Self-attention over histories in blocks: inside a block, inside a band, or over the whole history.

All three add to every token what it attends to, look both ways, and share pre-norm without learned parts, normalised
queries and keys, and an optional rotation of both. Rows never see one another, and an empty slot is never seen.

Sources: GEM 2026 (block-aligned attention, 64-token blocks); Kunlun, arXiv 2602.10016 (sliding window, summaries);
Swin, arXiv 2103.14030 (shifted blocks). Shapes: N blocks of L slots, d width, h heads, R rows.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.blocks import BlockLayout
from models.layers.norm import normalise
from models.layers.rotary import Rotation, rotate


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[..., L, d] -> [..., heads, L, d / heads]."""
    return x.unflatten(-1, (heads, -1)).transpose(-3, -2)


def merge_heads(x: Tensor) -> Tensor:
    """[..., heads, L, d / heads] -> [..., L, d], the inverse of `split_heads`."""
    return x.transpose(-3, -2).flatten(-2)


class SelfAttention(nn.Module):
    """What all three share: projections, norms, rotation, residual. What stands in empty slots is meaningless.

    Args:
        dim: d.
        heads: h.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x_NLD: Tensor, layout: BlockLayout, rotation: Rotation | None = None) -> Tensor:
        """Blocks [N, L, d] and, if wanted, how far their tokens turn -> [N, L, d]."""
        if not len(x_NLD):
            return x_NLD
        result: Tensor = x_NLD + self.out(self.attend(self.project(normalise(x_NLD)), layout, rotation))
        return result

    def attend(self, qkv_NLE: Tensor, layout: BlockLayout, rotation: Rotation | None) -> Tensor:
        """The core: projected queries, keys and values [N, L, 3 d] -> what each token attends to, [N, L, d]."""
        raise NotImplementedError

    def parts(self, qkv_NLE: Tensor, rotation: Rotation | None) -> tuple[Tensor, Tensor, Tensor]:
        """Normalised and rotated queries and keys, and values: [N, h, L, d / h] each."""
        q, k, v = (split_heads(part, self.heads) for part in qkv_NLE.chunk(3, -1))
        return rotate(normalise(q), rotation), rotate(normalise(k), rotation), v


class BlockSelfAttention(SelfAttention):
    """Attention inside each block: linear in the tokens; a change in one block changes only that block.

    Args:
        dim: d.
        heads: h.
        shift: cut each row half a block later, so that layers with and without it join neighbouring blocks.
    """

    def __init__(self, dim: int, heads: int, *, shift: bool = False) -> None:
        super().__init__(dim, heads)
        self.shift = shift

    def attend(self, qkv_NLE: Tensor, layout: BlockLayout, rotation: Rotation | None) -> Tensor:
        """See `SelfAttention`; an odd block cannot be shifted (ValueError)."""
        if not self.shift:
            q, k, v = self.parts(qkv_NLE, rotation)
            return merge_heads(functional.scaled_dot_product_attention(q, k, v, attn_mask=layout.mask[:, None, None]))
        order = half_block_order(layout)
        turned = None if rotation is None else Rotation(*(_reorder(part, order) for part in rotation))
        q, k, v = self.parts(_reorder(qkv_NLE, order), turned)
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=shifted_mask(layout, order))
        return _reorder(merge_heads(mixed), order.argsort())


def half_block_order(layout: BlockLayout) -> Tensor:
    """Which half-block comes to which place when every row is rolled by half a block: int64 [2 N].

    A row's oldest half-block comes to its end: the row keeps its number of blocks, and its last block holds two ends
    that must not see one another.

    Raises:
        ValueError: a block has an odd number of slots.
    """
    if layout.mask.shape[1] % 2:
        raise ValueError(f"blocks of {layout.mask.shape[1]} slots have no half to shift by")
    block = torch.arange(len(layout.row), device=layout.row.device)
    oldest = block - layout.blocks[layout.row] + 1
    after = torch.where(layout.newer == 0, oldest, block + 1)
    return torch.stack([2 * block + 1, 2 * after], dim=1).flatten()


def shifted_mask(layout: BlockLayout, order_H: Tensor) -> Tensor:
    """Who sees whom in the rolled blocks: bool [N, 1, L, L].

    Every slot sees itself: a softmax over nothing, in an empty slot without neighbours, would be undefined.
    """
    slot = torch.arange(layout.mask.shape[1], device=layout.row.device)
    newer_half = slot >= len(slot) // 2
    together = (newer_half[:, None] == newer_half) | (layout.newer > 0)[:, None, None]
    seen = _reorder(layout.mask[..., None], order_H).transpose(1, 2)
    return (together & seen | (slot[:, None] == slot))[:, None]


def _reorder(x_NLE: Tensor, order_H: Tensor) -> Tensor:
    return x_NLE.reshape(len(order_H), -1, x_NLE.shape[2])[order_H].view_as(x_NLE)


class WindowSelfAttention(SelfAttention):
    """Attention of each token to its row's tokens at most `window` places away: linear in the tokens.

    Args:
        dim: d.
        heads: h.
        window: reach on either side, at most a block.
    """

    def __init__(self, dim: int, heads: int, window: int) -> None:
        super().__init__(dim, heads)
        self.window = window

    def attend(self, qkv_NLE: Tensor, layout: BlockLayout, rotation: Rotation | None) -> Tensor:
        """See `SelfAttention`; a block and the nearest `window` slots of both neighbours hold all that is seen.

        Raises:
            ValueError: the window is wider than a block.
        """
        size = layout.mask.shape[1]
        if self.window > size:
            raise ValueError(f"window {self.window} is wider than a block of {size}: it would pass its neighbours")
        q, k, v = self.parts(qkv_NLE, rotation)
        block = torch.arange(len(layout.row), device=layout.row.device)
        has_newer, has_older = layout.newer > 0, layout.newer + 1 < layout.blocks[layout.row]
        older, newer = torch.where(has_older, block - 1, block), torch.where(has_newer, block + 1, block)

        def beside(x: Tensor) -> Tensor:
            return torch.cat([x[older, :, size - self.window :], x, x[newer, :, : self.window]], dim=2)

        seen = layout.mask[:, None]
        parts = [seen[older, :, size - self.window :] & has_older[:, None, None], seen]
        seen = torch.cat([*parts, seen[newer, :, : self.window] & has_newer[:, None, None]], dim=2)
        slot = torch.arange(size + 2 * self.window, device=block.device) - self.window
        distance = (slot - torch.arange(size, device=block.device)[:, None]).abs()
        mask = (distance <= self.window) & seen | (distance == 0)  # itself: see `shifted_mask`
        return merge_heads(functional.scaled_dot_product_attention(q, beside(k), beside(v), attn_mask=mask[:, None]))


class FullSelfAttention(SelfAttention):
    """Attention of each token to all tokens of its row: the quadratic control. Rows are padded to the longest."""

    def attend(self, qkv_NLE: Tensor, layout: BlockLayout, rotation: Rotation | None) -> Tensor:
        """See `SelfAttention`."""
        longest = int(layout.blocks.max())
        place = (layout.row, longest - 1 - layout.newer)

        def by_row(x_NLE: Tensor) -> Tensor:
            """[N, L, e] -> [R, longest x L, e], newest events last."""
            return x_NLE.new_zeros(layout.rows, longest, *x_NLE.shape[1:]).index_put(place, x_NLE).flatten(1, 2)

        turned = None if rotation is None else Rotation(*map(by_row, rotation))
        q, k, v = self.parts(by_row(qkv_NLE), turned)
        # A row without events sees its zeros: a softmax over nothing would be undefined.
        seen = by_row(layout.mask[..., None]).transpose(1, 2) | (layout.blocks == 0)[:, None, None]
        mixed = merge_heads(functional.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None]))
        return mixed.unflatten(1, (longest, -1))[place]
