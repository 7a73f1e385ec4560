"""Block attention against a loop over blocks; padding neither sees nor is seen."""

import torch

from models.layers.attention import BlockSelfAttention, merge_heads, split_heads
from models.layers.blocks import BlockLayout
from models.layers.norm import normalise


def reference(module: BlockSelfAttention, x_LD: torch.Tensor) -> torch.Tensor:
    """One block without padding, one head at a time."""
    dim = x_LD.shape[1]
    q, k, v = module.project(normalise(x_LD)).split(dim, -1)
    size, outs = dim // module.heads, []
    for head in range(module.heads):
        part = slice(head * size, (head + 1) * size)
        scores = normalise(q[:, part]) @ normalise(k[:, part]).T / size**0.5
        outs.append(scores.softmax(-1) @ v[:, part])
    return x_LD + module.out(torch.cat(outs, -1))


def test_equals_a_loop_over_blocks() -> None:
    lengths, module = torch.tensor([6, 0, 3, 8]), BlockSelfAttention(8, 2)
    x, layout = torch.randn(17, 8), BlockLayout.of(lengths, 4)
    got = layout.unpack(module(layout.pack(x), layout.mask))
    blocks = [(0, 2), (2, 6), (6, 9), (9, 13), (13, 17)]
    torch.testing.assert_close(got, torch.cat([reference(module, x[a:b]) for a, b in blocks]), rtol=1e-5, atol=1e-5)


def test_a_change_in_one_block_stays_there() -> None:
    module, layout = BlockSelfAttention(8, 2), BlockLayout.of(torch.tensor([8]), 4)
    x = torch.randn(8, 8)
    changed = x.clone()
    changed[1] += 1.0
    difference = (module(layout.pack(x), layout.mask) - module(layout.pack(changed), layout.mask)).abs().sum((1, 2))
    assert difference[0] > 0 and difference[1] == 0


def test_heads_split_and_merge_and_nothing_is_fine() -> None:
    x = torch.randn(2, 5, 8)
    torch.testing.assert_close(merge_heads(split_heads(x, 4)), x)
    assert BlockSelfAttention(8, 2)(torch.zeros(0, 4, 8), torch.zeros(0, 4, dtype=torch.bool)).shape == (
        0,
        4,
        8,
    )
