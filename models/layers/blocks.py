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

    def pack(self, x_TD: Tensor) -> Tensor:
        """[T, d] -> [N, block, d], zeros where no event is."""
        count, block = self.mask.shape
        flat = x_TD.new_zeros(count * block, x_TD.shape[1]).index_copy(0, self.slot, x_TD)
        return flat.view(count, block, x_TD.shape[1])

    def unpack(self, x_NLD: Tensor) -> Tensor:
        """[N, block, d] -> [T, d], the inverse of `pack`."""
        return x_NLD.flatten(0, 1)[self.slot]

    def sum_by_row(self, x_N: Tensor) -> Tensor:
        """[N, ...] -> [R, ...], sums over the blocks of each row."""
        return x_N.new_zeros(self.rows, *x_N.shape[1:]).index_add(0, self.row, x_N)
