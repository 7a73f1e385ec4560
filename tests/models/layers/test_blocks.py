"""Block layout: lossless, never two rows in a block, newest events in full blocks; merged blocks stay whole."""

import pytest
import torch

from models.layers.blocks import BlockLayout

LENGTHS = [[], [0], [0, 0], [5], [1, 0, 9, 4, 8], [8, 16], [33, 0, 17, 1]]


@pytest.mark.parametrize("lengths", LENGTHS)
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
    assert layout.blocks.tolist() == [2, 0, 1]
    assert layout.newer.tolist() == [1, 0, 0]


@pytest.mark.parametrize("lengths", LENGTHS)
def test_index_counts_from_the_newest(lengths: list[int]) -> None:
    layout = BlockLayout.of(torch.tensor(lengths, dtype=torch.long), 4)
    expected = [place for n in lengths for place in range(n - 1, -1, -1)]
    assert layout.unpack(layout.index[..., None])[:, 0].tolist() == expected


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("ratio", [2, 4])
def test_merged_blocks_fill_the_coarse_layout(lengths: list[int], ratio: int) -> None:
    """Merging by the newest of each group, through blocks, equals picking it from each row's plain list."""
    layout = BlockLayout.of(torch.tensor(lengths, dtype=torch.long), 4)
    x = torch.randn(sum(lengths), 3)
    newest_of_group = layout.pack(x).unflatten(1, (-1, ratio))[:, :, -1]
    coarse = layout.coarse(ratio)
    rows = [part.flip(0)[::ratio].flip(0) for part in x.split(lengths)] if lengths else [x]
    assert torch.equal(coarse.unpack(layout.gather(newest_of_group, ratio)), torch.cat(rows))
    assert coarse.mask.shape == layout.gather(newest_of_group, ratio).shape[:2]
    assert len(coarse.row) == sum(-(-n // (4 * ratio)) for n in lengths)
