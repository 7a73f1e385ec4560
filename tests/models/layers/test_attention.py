"""Block, window and full attention against a loop over rows without padding, forward and backward."""

import random
from collections.abc import Callable

import pytest
import torch

from models.layers.attention import (
    BlockSelfAttention,
    FullSelfAttention,
    SelfAttention,
    WindowSelfAttention,
    merge_heads,
    split_heads,
)
from models.layers.blocks import BlockLayout
from models.layers.norm import normalise
from models.layers.rotary import Rotation, TemporalRotary, rotate

DIM, HEADS, BLOCK, WINDOW = 8, 2, 4, 3
DRAWN = [[random.Random(seed).randrange(20) for _ in range(6)] for seed in range(3)]
Seen = Callable[[torch.Tensor], torch.Tensor]
"""Places counted from the newest event [T] -> who sees whom, bool [T, T]."""


def same(number: Callable[[torch.Tensor], torch.Tensor]) -> Seen:
    return lambda place: number(place)[:, None] == number(place)


KINDS: dict[str, tuple[Callable[[], SelfAttention], Seen]] = {
    "block": (lambda: BlockSelfAttention(DIM, HEADS), same(lambda place: place // BLOCK)),
    "shifted": (
        lambda: BlockSelfAttention(DIM, HEADS, shift=True),
        same(lambda place: (place + BLOCK // 2) // BLOCK),
    ),
    "window": (
        lambda: WindowSelfAttention(DIM, HEADS, WINDOW),
        lambda place: (place[:, None] - place).abs() <= WINDOW,
    ),
    "full": (lambda: FullSelfAttention(DIM, HEADS), same(torch.zeros_like)),
}


def reference(module: SelfAttention, x_TD: torch.Tensor, age: torch.Tensor | None, seen: Seen) -> torch.Tensor:
    """One row without padding, one head and one query at a time."""
    place = torch.arange(len(x_TD) - 1, -1, -1)
    rotation = None if age is None else ROTARY(age[None], place[None])
    allowed, size, outs = seen(place), DIM // HEADS, []
    q, k, v = module.project(normalise(x_TD)).split(DIM, -1)
    for head in range(HEADS):
        part = slice(head * size, (head + 1) * size)
        turned_q, turned_k = (rotate(normalise(y[:, part])[None, None], rotation)[0, 0] for y in (q, k))
        rows = []
        for t in range(len(x_TD)):
            scores = turned_k[allowed[t]] @ turned_q[t] / size**0.5
            rows.append(scores.softmax(0) @ v[:, part][allowed[t]])
        outs.append(torch.stack(rows) if rows else v[:, part])
    return x_TD + module.out(torch.cat(outs, -1))


ROTARY = TemporalRotary(DIM // HEADS, time_scale_days=1.0, base=50.0)


def rotation_of(layout: BlockLayout, age: torch.Tensor) -> Rotation:
    return ROTARY(layout.pack(age[:, None])[..., 0], layout.index)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("lengths", [[6, 0, 3, 8], [1], [0, 0, 16], *DRAWN])
def test_equals_a_loop_over_rows_forward_and_backward(kind: str, turned: bool, lengths: list[int]) -> None:
    torch.manual_seed(len(lengths))
    made, seen = KINDS[kind]
    module, total = made(), sum(lengths)
    age = torch.rand(total) * 30
    flat, wanted = torch.randn(total, DIM, requires_grad=True), torch.randn(total, DIM)
    rows = zip(flat.split(lengths), age.split(lengths), strict=True)
    expected = torch.cat([reference(module, x, a if turned else None, seen) for x, a in rows])
    by_loop = torch.autograd.grad(expected, [flat, *module.parameters()], wanted)

    layout = BlockLayout.of(torch.tensor(lengths), BLOCK)
    # what stands in empty slots must not matter, so it is large
    x_NLD = torch.where(layout.mask[..., None], layout.pack(flat.detach()), 50.0 + torch.randn(*layout.mask.shape, DIM))
    x_NLD.requires_grad_(True)
    got = layout.unpack(module(x_NLD, layout, rotation_of(layout, age) if turned else None))
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    by_blocks = torch.autograd.grad(got, [x_NLD, *module.parameters()], wanted)
    torch.testing.assert_close(layout.unpack(by_blocks[0]), by_loop[0], rtol=1e-5, atol=1e-5)
    assert not by_blocks[0][~layout.mask].any()
    for fast, slow in zip(by_blocks[1:], by_loop[1:], strict=True):
        torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_reaches_what_sees_it_and_nothing_else(kind: str) -> None:
    made, seen = KINDS[kind]
    module, lengths = made(), [11, 6]
    layout, x = BlockLayout.of(torch.tensor(lengths), BLOCK), torch.randn(17, DIM)
    before = layout.unpack(module(layout.pack(x), layout))
    reach = torch.block_diag(*(seen(torch.arange(n - 1, -1, -1)).float() for n in lengths)).bool()
    for changed in (0, 5, 10, 11, 16):
        other = x.clone()
        other[changed] += torch.randn(DIM)
        moved = (layout.unpack(module(layout.pack(other), layout)) - before).abs().sum(1) > 0
        assert torch.equal(moved, reach[:, changed]), changed


def test_two_layers_join_neighbouring_blocks_only_when_one_is_shifted() -> None:
    layout = BlockLayout.of(torch.tensor([8]), BLOCK)
    x = torch.randn(2, BLOCK, DIM, requires_grad=True)
    for shift in (False, True):
        first, second = BlockSelfAttention(DIM, HEADS), BlockSelfAttention(DIM, HEADS, shift=shift)
        grad = torch.autograd.grad(second(first(x, layout), layout)[1, 0].sum(), x)[0]
        assert bool(grad[0].any()) is shift


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_fine(kind: str) -> None:
    layout = BlockLayout.of(torch.tensor([0, 0]), BLOCK)
    assert KINDS[kind][0]()(torch.zeros(0, BLOCK, DIM), layout).shape == (0, BLOCK, DIM)


def test_what_cannot_be_is_refused() -> None:
    layout = BlockLayout.of(torch.tensor([3]), 3)
    with pytest.raises(ValueError, match="half"):
        BlockSelfAttention(DIM, HEADS, shift=True)(torch.zeros(1, 3, DIM), layout)
    with pytest.raises(ValueError, match="wider"):
        WindowSelfAttention(DIM, HEADS, 4)(torch.zeros(1, 3, DIM), layout)


def test_heads_split_and_merge() -> None:
    x = torch.randn(2, 5, 8)
    torch.testing.assert_close(merge_heads(split_heads(x, 4)), x)
