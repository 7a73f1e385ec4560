"""Block layout: lossless, never two rows in a block, newest events in full blocks."""

import pytest
import torch

from models.layers.blocks import BlockLayout


@pytest.mark.parametrize("lengths", [[], [0], [0, 0], [5], [1, 0, 9, 4, 8], [8, 16]])
def test_pack_and_unpack_are_inverse(lengths: list[int]) -> None:
    layout = BlockLayout.of(torch.tensor(lengths, dtype=torch.long), 4)
    x = torch.randn(sum(lengths), 3)
    packed = layout.pack(x)
    torch.testing.assert_close(layout.unpack(packed), x)
    assert int(layout.mask.sum()) == sum(lengths)
    assert not packed[~layout.mask].any()
    assert len(layout.row) == sum(-(-n // 4) for n in lengths)


def test_blocks_hold_one_row_in_order_and_only_the_oldest_is_partial() -> None:
    layout = BlockLayout.of(torch.tensor([6, 0, 3]), 4)
    packed = layout.pack(torch.arange(1.0, 10.0)[:, None]).squeeze(2)
    assert packed.tolist() == [[0, 0, 1, 2], [3, 4, 5, 6], [0, 7, 8, 9]]
    assert layout.row.tolist() == [0, 0, 2]
    assert layout.sum_by_row(packed.sum(1)).tolist() == [21, 0, 24]
