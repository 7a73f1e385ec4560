"""The pyramid against plain lists by row, forward and backward; what its top sees; what it costs."""

import random

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from models.layers.blocks import BlockLayout
from models.layers.norm import normalise
from models.layers.pyramid import Pyramid, PyramidLevel, TokenInteraction
from models.layers.rotary import Rotation, TemporalRotary

DIM, BLOCK = 8, 4
ROTARY = TemporalRotary(DIM // 2, base=50.0)
DRAWN = [[random.Random(seed).randrange(30) for _ in range(3)] for seed in range(2)]


def made(levels: int = 3, ratio: int = 2, window: int | None = None) -> Pyramid:
    pyramid = Pyramid(dim=DIM, heads=2, levels=levels, ratio=ratio, tokens=2, block=BLOCK, window=window, rank=3)
    for level in pyramid.levels:
        assert isinstance(level, PyramidLevel)
        torch.nn.init.normal_(level.gate.weight)  # gates that are all 1 would hide a mistake
    return pyramid


def whole(count: int) -> BlockLayout:
    """One row in one block without padding."""
    return BlockLayout.of(torch.tensor([count]), count)


def chunks(count: int, size: int) -> list[slice]:
    """Groups of `size` counted from the end, the oldest first."""
    starts = range(count, 0, -size)
    return [slice(max(end - size, 0), end) for end in starts][::-1]


def products(module: TokenInteraction, x_LD: torch.Tensor) -> torch.Tensor:
    """One block, one pair of tokens at a time; the last token has the last row of Y."""
    z, factors = normalise(x_LD), module.factors_LK[BLOCK - len(x_LD) :]
    sums = [[torch.dot(z[i], z[j]) * factors[j] for j in range(len(z))] for i in range(len(z))]
    return x_LD + module.out(torch.stack([torch.stack(row).sum(0) for row in sums]) / DIM**0.5)


def part(rotation: Rotation | None, at: slice) -> Rotation | None:
    return None if rotation is None else Rotation(rotation.cos[at][None], rotation.sin[at][None])


def reference(pyramid: Pyramid, x_TD: torch.Tensor, context_CD: torch.Tensor, turn: Rotation | None) -> torch.Tensor:
    """One row: a plain list of tokens a level."""
    summaries, row = [], torch.tensor([0])
    for level, pool in zip(pyramid.levels, pyramid.pools, strict=True):
        assert isinstance(level, PyramidLevel)
        attended, crossed = [], []
        for at in chunks(len(x_TD), BLOCK):
            attended.append(level.attention(x_TD[at][None], whole(at.stop - at.start), part(turn, at))[0])
            crossed.append(products(level.interaction, x_TD[at]))
        informed = level.gdpa(x_TD[None], context_CD[None], row)[0]
        gates = 2 * torch.sigmoid(level.gate(normalise(x_TD)))
        changes = [torch.cat(attended) - x_TD, informed - x_TD, torch.cat(crossed) - x_TD]
        x_TD = x_TD + sum(gates[:, [m]] * change for m, change in enumerate(changes))
        summaries.append(pool(x_TD[None], whole(len(x_TD)))[0])
        if level.merge is not None and level.ratio is not None:
            groups = chunks(len(x_TD), level.ratio)
            full = [torch.cat([x_TD.new_zeros(level.ratio - len(x_TD[at]), DIM), x_TD[at]]).flatten() for at in groups]
            x_TD = level.merge(torch.stack(full))
            if turn is not None:
                newest = [at.stop - 1 for at in groups]
                turn = Rotation(turn.cos[newest], turn.sin[newest])
    return torch.cat(summaries)


@pytest.mark.parametrize(("levels", "ratio"), [(1, 2), (3, 2), (2, 4)])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("lengths", [[1, 0, 17], *DRAWN])
def test_equals_plain_lists_forward_and_backward(levels: int, ratio: int, turned: bool, lengths: list[int]) -> None:
    torch.manual_seed(len(lengths))
    pyramid, total = made(levels, ratio), sum(lengths)
    flat, context = torch.randn(total, DIM, requires_grad=True), torch.randn(len(lengths), 3, DIM, requires_grad=True)
    age, place = torch.rand(total) * 9, torch.cat([torch.arange(n - 1, -1, -1) for n in lengths])
    turn = ROTARY(age, place)
    expected = []
    for row, (x, cos, sin) in enumerate(zip(*(p.split(lengths) for p in (flat, *turn)), strict=True)):
        if len(x):
            expected.append(reference(pyramid, x, context[row], Rotation(cos, sin) if turned else None))
        else:
            expected.append(torch.zeros(2 * levels, DIM))
    wanted, inputs = torch.randn(len(lengths), 2 * levels, DIM), [flat, context, *pyramid.parameters()]
    by_loop = torch.autograd.grad(torch.stack(expected), inputs, wanted, materialize_grads=True)

    layout = BlockLayout.of(torch.tensor(lengths), BLOCK)
    rotation = Rotation(layout.pack(turn.cos), layout.pack(turn.sin)) if turned else None
    x_NLD = torch.where(layout.mask[..., None], layout.pack(flat.detach()), 9.0 + torch.randn(*layout.mask.shape, DIM))
    x_NLD.requires_grad_(True)
    got = pyramid(x_NLD, layout, context, rotation)
    torch.testing.assert_close(got, torch.stack(expected), rtol=1e-5, atol=1e-5)
    by_blocks = torch.autograd.grad(got, [x_NLD, *inputs[1:]], wanted, materialize_grads=True)
    torch.testing.assert_close(layout.unpack(by_blocks[0]), by_loop[0], rtol=1e-4, atol=1e-5)
    assert not by_blocks[0][~layout.mask].any()
    for fast, slow in zip(by_blocks[1:], by_loop[1:], strict=True):
        torch.testing.assert_close(fast, slow, rtol=1e-4, atol=5e-5)


def test_full_rank_interaction_is_the_gram_matrix() -> None:
    module, x = TokenInteraction(DIM, BLOCK, BLOCK), torch.randn(2, BLOCK, DIM)
    module.factors_LK.data = torch.eye(BLOCK)
    gram = normalise(x) @ normalise(x).transpose(1, 2)
    got = module(x, BlockLayout.of(torch.tensor([BLOCK, BLOCK]), BLOCK))
    torch.testing.assert_close(got, x + module.out(gram / DIM**0.5))


@pytest.mark.parametrize("window", [None, BLOCK])
def test_every_token_of_the_top_sees_the_whole_history_and_no_other_row(window: int | None) -> None:
    length = BLOCK * 2**2
    layout = BlockLayout.of(torch.tensor([length, 7]), BLOCK)
    x = torch.randn(*layout.mask.shape, DIM, requires_grad=True)
    reached = made(levels=3, window=window).climb(x, layout, torch.randn(2, 3, DIM))
    assert [int(at.mask.sum()) for _, at in reached] == [16 + 7, 8 + 4, 4 + 2]
    for token in range(BLOCK):
        grad = torch.autograd.grad(reached[-1][0][0, token].sum(), x, retain_graph=True)[0]
        assert (grad[layout.row == 0].abs().sum(2) > 0).all() and not grad[layout.row == 1].any()
    bottom = torch.autograd.grad(reached[0][0][0, 0].sum(), x, retain_graph=True)[0].abs().sum((1, 2)) > 0
    assert bottom.sum() == (1 if window is None else 2)  # the level below sees a block, or a window


BASE = ("Pyramid.levels.0", "Pyramid.levels.0.merge", "Pyramid.pools.0")


def flops_of(pyramid: Pyramid, events: int) -> dict[str, int]:
    layout = BlockLayout.of(torch.tensor([events]), 16)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        pyramid(torch.randn(*layout.mask.shape, 16), layout, torch.randn(1, 4, 16))
    parts = {name: sum(count.values()) for name, count in counter.get_flop_counts().items()}
    base = [count for name, count in parts.items() if name in BASE]
    return {"all": counter.get_total_flops(), "base": sum(base)}


@pytest.mark.parametrize(("levels", "ratio"), [(3, 2), (3, 4)])
def test_cost_is_linear_and_at_most_a_geometric_series_of_the_base(levels: int, ratio: int) -> None:
    pyramid = Pyramid(dim=16, heads=2, levels=levels, ratio=ratio, tokens=2, block=16)
    step = 16 * ratio ** (levels - 1)
    small, middle, large = (flops_of(pyramid, step * times) for times in (1, 2, 4))
    slope = {key: (middle[key] - small[key]) / step for key in small}
    assert large["all"] - middle["all"] == 2 * (middle["all"] - small["all"])
    series = sum(ratio**-level for level in range(levels))
    assert slope["all"] < series * slope["base"] <= ratio / (ratio - 1) * slope["base"]
    assert slope["all"] > 1.1 * slope["base"]  # the counter did see the upper levels


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="merged 3 by 3"):
        made(ratio=3)


def test_no_rows_and_rows_without_events() -> None:
    pyramid = made()
    empty = BlockLayout.of(torch.tensor([0, 0]), BLOCK)
    out = pyramid(torch.zeros(0, BLOCK, DIM), empty, torch.randn(2, 3, DIM))
    assert out.shape == (2, 6, DIM) and not out.any()
