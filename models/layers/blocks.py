"""Jagged sequences as fixed blocks, so that attention is dense algebra.

[T, d] events of R rows become [N, block, d] with a mask.

Blocks are counted from a row's newest event backwards, so the newest events always share a full block and
only the oldest block of a row is partial (a block never holds two rows). Padding is at most block - 1 slots a
row, whatever the longest row is. Source of the block idea: GEM 2026, block-aligned attention with 64-token
blocks.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class BlockLayout:
    """Where each event goes.

    Attributes:
        slot: int64 [T], place of an event among the N x block slots.
        row: int64 [N], row of each block.
        mask: bool [N, block], where an event is.
        rows: R.
    """

    slot: Tensor
    row: Tensor
    mask: Tensor
    rows: int

    @classmethod
    def of(cls, lengths: Tensor, block: int) -> "BlockLayout":
        """Layout of rows of the given lengths (int64 [R])."""
        counts = (lengths + block - 1) // block
        rows = torch.arange(len(lengths), device=lengths.device)
        event_row = torch.repeat_interleave(rows, lengths)
        from_end = torch.cumsum(lengths, 0)[event_row] - 1 - torch.arange(len(event_row), device=lengths.device)
        last_block = torch.cumsum(counts, 0)[event_row] - 1
        slot = (last_block - from_end // block) * block + (block - 1 - from_end % block)
        row = torch.repeat_interleave(rows, counts)
        mask = torch.zeros(len(row) * block, dtype=torch.bool, device=lengths.device)
        mask[slot] = True
        return cls(slot, row, mask.view(-1, block), len(lengths))

    @property
    def blocks(self) -> Tensor:
        """Blocks of each row: int64 [R]."""
        return self.sum_by_row(torch.ones_like(self.row))

    @property
    def newer(self) -> Tensor:
        """How many blocks of the same row follow each block: int64 [N], 0 for a row's newest."""
        last = torch.cumsum(self.blocks, 0) - 1
        return last[self.row] - torch.arange(len(self.row), device=self.row.device)

    @property
    def index(self) -> Tensor:
        """Place of each slot counted from its row's newest event: int64 [N, block], 0 for the newest."""
        block = self.mask.shape[1]
        return self.newer[:, None] * block + torch.arange(block - 1, -1, -1, device=self.row.device)

    def pack(self, x_TD: Tensor) -> Tensor:
        """[T, d] -> [N, block, d], zeros where no event is."""
        count, block = self.mask.shape
        flat = x_TD.new_zeros(count * block, x_TD.shape[1]).index_copy(0, self.slot, x_TD)
        return flat.view(count, block, x_TD.shape[1])

    def unpack(self, x_NLD: Tensor) -> Tensor:
        """[N, block, d] -> [T, d], the inverse of `pack`."""
        return x_NLD.flatten(0, 1)[self.slot]

    def coarse(self, ratio: int) -> "BlockLayout":
        """Layout of rows whose events were merged `ratio` at a time, newest first, in blocks of the same size."""
        lengths = self.sum_by_row(self.mask.sum(1))
        return BlockLayout.of((lengths + ratio - 1) // ratio, self.mask.shape[1])

    def gather(self, x_NLD: Tensor, ratio: int) -> Tensor:
        """Move what was merged into the slots of `coarse(ratio)`.

        Blocks are counted from the newest, so `ratio` neighbouring blocks of a row, each merged to block / ratio slots,
        make up one whole block.

        Args:
            x_NLD: [N, block / ratio, d], what became of each block.
            ratio: events merged into one.

        Returns:
            [N', block, d], zeros where a row has no further block.
        """
        joined = BlockLayout.of(self.blocks, ratio).pack(x_NLD.flatten(1))
        return joined.view(-1, self.mask.shape[1], x_NLD.shape[2])

    def sum_by_row(self, x_N: Tensor) -> Tensor:
        """[N, ...] -> [R, ...], sums over the blocks of each row."""
        return x_N.new_zeros(self.rows, *x_N.shape[1:]).index_add(0, self.row, x_N)
