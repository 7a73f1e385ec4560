"""InterFormer's parts against loops over rows, its personalised map, its recency rows, its flows and its shapes."""

import itertools
from typing import get_args

import pytest
import torch
from torch import nn

from models.layers.attention import BlockSelfAttention, FullSelfAttention
from models.layers.blocks import BlockLayout
from models.layers.cross import CrossTokens
from models.layers.dhen import DHENLayer, TokenAttention
from models.layers.dot import DotInteraction
from models.layers.interformer import (
    ContextSummary,
    Flow,
    HistorySummary,
    InteractionArch,
    InterFormerLayer,
    PersonalisedFeedForward,
    SelfGate,
    SequenceArch,
    SummarySizes,
    newest,
    with_cls,
)
from models.layers.norm import normalise
from models.layers.rotary import TemporalRotary, rotate
from models.layers.wukong import WukongLayer

DIM, HEADS, BLOCK, TOKENS = 8, 2, 4, 5
SIZES = SummarySizes(context=3, pooled=2, recent=2)
LENGTHS = [[6, 0, 3, 8], [1], [0, 0, 13, 2], [4, 4]]


def packed(flat: torch.Tensor, lengths: list[int]) -> tuple[torch.Tensor, BlockLayout]:
    """Blocks that want a gradient; what stands in empty slots must not matter, so it is large."""
    layout = BlockLayout.of(torch.tensor(lengths), BLOCK)
    noise = 50.0 + torch.randn(*layout.mask.shape, flat.shape[1])
    return torch.where(layout.mask[..., None], layout.pack(flat.detach()), noise).requires_grad_(True), layout


def same_gradients(
    fast: torch.Tensor, slow: torch.Tensor, blocks: torch.Tensor, flat: torch.Tensor, shared: list[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of all that both depend on are equal; those of the blocks and of the flat events are returned."""
    torch.testing.assert_close(fast, slow, rtol=1e-5, atol=1e-5)
    wanted = torch.randn_like(fast)
    by_blocks = torch.autograd.grad(fast, [blocks, *shared], wanted)
    by_loop = torch.autograd.grad(slow, [flat, *shared], wanted)
    for a, b in zip(by_blocks[1:], by_loop[1:], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    return by_blocks[0], by_loop[0]


@pytest.mark.parametrize("printed", [False, True])
def test_both_forms_of_the_gate(printed: bool) -> None:
    gate, z = SelfGate(DIM, printed=printed), torch.randn(4, 3, DIM)
    for b, place in itertools.product(range(4), range(3)):
        one, mixed = z[b, place], gate.mix(z[b, place])
        expected = 1 / (1 + torch.exp(-one * mixed)) if printed else one / (1 + torch.exp(-mixed))
        torch.testing.assert_close(gate(z)[b, place], expected, rtol=1e-5, atol=1e-6)
    large = gate(1e3 * z).abs().max()
    assert large <= 1.0 if printed else large > 10.0  # the printed form loses the scale


@pytest.mark.parametrize("printed", [False, True])
def test_context_summary_is_a_gated_map_over_tokens(printed: bool) -> None:
    module, x = ContextSummary(tokens=TOKENS, dim=DIM, summary=3, printed=printed), torch.randn(4, TOKENS, DIM)
    rows = [[sum(w * t for w, t in zip(row, one, strict=True)) for row in module.compress] for one in x]
    expected = torch.stack([torch.stack([module.gate(row) for row in one]) for one in rows])
    torch.testing.assert_close(module(x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("count", [1, 3, 6])
def test_newest_tokens_equal_each_rows_tail(lengths: list[int], count: int) -> None:
    flat = torch.randn(sum(lengths), DIM, requires_grad=True)
    tails = [torch.cat([torch.zeros(count, DIM), row])[-count:] for row in flat.split(lengths)]
    x_NLD, layout = packed(flat, lengths)
    got = newest(x_NLD, layout, count)
    assert torch.equal(got, torch.stack(tails))
    by_blocks, by_loop = same_gradients(got, torch.stack(tails), x_NLD, flat, [])
    assert torch.equal(layout.unpack(by_blocks), by_loop) and not by_blocks[~layout.mask].any()


def test_no_events_at_all() -> None:
    layout = BlockLayout.of(torch.tensor([0, 0]), BLOCK)
    assert torch.equal(newest(torch.zeros(0, BLOCK, DIM), layout, 2), torch.zeros(2, 2, DIM))
    blocks, longer, _ = with_cls(torch.zeros(0, BLOCK, DIM), layout, torch.ones(2, 3, DIM))
    assert torch.equal(longer.unpack(blocks), torch.ones(6, DIM))


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("count", [1, 3, 5])
def test_cls_rows_end_every_row_and_are_not_rotated(lengths: list[int], count: int) -> None:
    flat = torch.randn(sum(lengths), DIM, requires_grad=True)
    cls = torch.randn(len(lengths), count, DIM, requires_grad=True)
    x_NLD, layout = packed(flat, lengths)
    rotation = TemporalRotary(DIM)(torch.rand(*layout.mask.shape) * 30, layout.index)
    blocks, longer, turned = with_cls(x_NLD, layout, cls, rotation)
    expected = torch.cat([torch.cat(pair) for pair in zip(flat.split(lengths), cls, strict=True)])
    by_blocks, by_loop = same_gradients(longer.unpack(blocks), expected, x_NLD, flat, [cls])
    assert torch.equal(layout.unpack(by_blocks), by_loop) and not by_blocks[~layout.mask].any()
    assert not blocks[~longer.mask].any()
    assert turned is not None
    # events turn as they did before, CLS rows stay as they are
    before = layout.unpack(rotate(x_NLD[:, None], rotation)[:, 0])
    after = longer.unpack(rotate(blocks[:, None], turned)[:, 0])
    rows = zip(before.split(lengths), cls, strict=True)
    torch.testing.assert_close(after, torch.cat([torch.cat(pair) for pair in rows]))


def test_the_personalised_map_equals_its_matrix_and_has_low_rank() -> None:
    torch.manual_seed(0)
    module = PersonalisedFeedForward(DIM, 3).double()
    layout = BlockLayout.of(torch.tensor([6, 0, 3]), BLOCK)
    s_NLD = layout.pack(torch.randn(9, DIM).double()).requires_grad_(True)
    context = torch.randn(3, 3, DIM).double().requires_grad_(True)
    matrices = context.transpose(1, 2) @ module.keys_CD  # W = X_sum^T A, one a row
    assert torch.linalg.matrix_rank(matrices).tolist() == [3, 3, 3]
    expected = torch.stack([s @ matrices[row].T for s, row in zip(s_NLD, layout.row, strict=True)])
    got = module(s_NLD, context, layout.row)
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)
    wanted = torch.randn_like(got)
    learned = [s_NLD, context, module.keys_CD]
    slow, fast = (torch.autograd.grad(out, learned, wanted, retain_graph=True) for out in (expected, got))
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("printed", [False, True])
def test_history_summary_equals_a_loop_over_rows(lengths: list[int], printed: bool) -> None:
    """Rows hold their events and then as many CLS rows as there are."""
    module, longer = HistorySummary(dim=DIM, heads=HEADS, sizes=SIZES, printed=printed), [n + 3 for n in lengths]
    flat = torch.randn(sum(longer), DIM, requires_grad=True)
    summaries = []
    for row in flat.split(longer):
        alone = BlockLayout.of(torch.tensor([len(row)]), len(row))
        recent = torch.cat([torch.zeros(2, DIM), row[:-3]])[-2:]
        summaries.append(module.gate(torch.cat([row[-3:], module.pool(row[None], alone)[0], recent])))
    s_NLD, layout = packed(flat, longer)
    got = module(s_NLD, layout)
    assert got.shape == (len(lengths), SIZES.history, DIM)
    by_blocks, by_loop = same_gradients(got, torch.stack(summaries), s_NLD, flat, list(module.parameters()))
    torch.testing.assert_close(layout.unpack(by_blocks), by_loop, rtol=1e-4, atol=1e-5)
    assert not by_blocks[~layout.mask].any()


def test_recent_rows_do_not_see_the_order_of_older_events() -> None:
    module, length = HistorySummary(dim=DIM, heads=HEADS, sizes=SIZES), 11
    layout = BlockLayout.of(torch.tensor([length + 3]), BLOCK)
    flat = torch.randn(length + 3, DIM)
    shuffled = torch.cat([flat[: length - 2][torch.randperm(length - 2)], flat[length - 2 :]])
    one, other = (module(layout.pack(x), layout)[0] for x in (flat, shuffled))
    assert torch.equal(one[-2:], other[-2:]) and torch.equal(one[:3], other[:3])
    changed = flat.clone()
    changed[length - 2] += 1.0
    assert ((module(layout.pack(changed), layout)[0] - one).abs().sum(1) > 0).tolist() == [False] * 3 + [True] * 3 + [
        False
    ]


@pytest.mark.parametrize("lengths", LENGTHS)
def test_the_sequence_arch_equals_its_formula_by_rows(lengths: list[int]) -> None:
    module = SequenceArch(dim=DIM, summary=3, attention=FullSelfAttention(DIM, HEADS))
    flat = torch.randn(sum(lengths), DIM, requires_grad=True)
    context = torch.randn(len(lengths), 3, DIM, requires_grad=True)
    rows = []
    for row, x_sum in zip(flat.split(lengths), context, strict=True):
        personal = row + normalise(row) @ (x_sum.T @ module.feedforward.keys_CD).T
        alone = BlockLayout.of(torch.tensor([len(row)]), max(1, len(row)))
        rows.append(alone.unpack(module.attention(alone.pack(personal), alone)))
    s_NLD, layout = packed(flat, lengths)
    got = layout.unpack(module(s_NLD, layout, context))
    learned = [context, *module.parameters()]
    by_blocks, by_loop = same_gradients(got, torch.cat(rows), s_NLD, flat, learned)
    torch.testing.assert_close(layout.unpack(by_blocks), by_loop, rtol=1e-4, atol=1e-5)
    assert not by_blocks[~layout.mask].any()


HEARD = TOKENS + SIZES.history
INTERACTIONS = {
    "dot": lambda: DotInteraction(tokens=HEARD, dim=DIM, out_tokens=4),
    "cross": lambda: CrossTokens(tokens=HEARD, dim=DIM),
    "wukong": lambda: WukongLayer(tokens=HEARD, dim=DIM, fm_tokens=3, linear_tokens=2, rank=2, hidden=(16,)),
    "dhen": lambda: DHENLayer(
        [TokenAttention(tokens=HEARD, dim=DIM, heads=HEADS), CrossTokens(tokens=HEARD, dim=DIM, rank=2)], tokens=HEARD
    ),
}


@pytest.mark.parametrize("kind", INTERACTIONS)
def test_the_interaction_arch_takes_any_interaction(kind: str) -> None:
    interaction = INTERACTIONS[kind]()
    module = InteractionArch(tokens=TOKENS, dim=DIM, interaction=interaction)
    x, heard = torch.randn(3, TOKENS, DIM), torch.randn(3, SIZES.history, DIM)
    made = interaction(torch.cat([x, heard], dim=1))
    rows = torch.eye(TOKENS) if module.rows is None else module.rows
    kept = torch.stack([torch.stack([sum(w * t for w, t in zip(r, o, strict=True)) for r in rows]) for o in made])
    torch.testing.assert_close(module(x, heard), x + module.mix(normalise(kept)), rtol=1e-5, atol=1e-5)


def layer(flow: Flow = "both", attention: nn.Module | None = None) -> InterFormerLayer:
    return InterFormerLayer(
        tokens=TOKENS,
        dim=DIM,
        heads=HEADS,
        sizes=SIZES,
        interaction=INTERACTIONS["dhen"](),
        attention=attention or FullSelfAttention(DIM, HEADS),
        flow=flow,
    )


@pytest.mark.parametrize("flow", get_args(Flow))
def test_every_layer_keeps_shapes_and_information_flows_as_told(flow: Flow) -> None:
    lengths = torch.tensor([6, 0, 9])
    layout = BlockLayout.of(lengths + SIZES.context, BLOCK)
    x = torch.randn(3, TOKENS, DIM, requires_grad=True)
    s = layout.pack(torch.randn(int(lengths.sum()) + 9, DIM)).requires_grad_(True)
    features, history = x, s
    for _ in range(2):
        features, history = layer(flow)(features, history, layout)
        assert features.shape == x.shape and history.shape == s.shape
    from_x, from_s = torch.autograd.grad(features.square().sum(), [x, s], retain_graph=True, allow_unused=True)
    assert from_x is not None and from_x.any()
    assert (from_s is not None) == (flow in ("s_to_x", "both"))
    from_x, from_s = torch.autograd.grad(layout.unpack(history).square().sum(), [x, s], allow_unused=True)
    assert from_s is not None and from_s.any()
    assert (from_x is not None) == (flow in ("x_to_s", "both"))


def test_flows_differ_in_what_is_told_not_in_sizes() -> None:
    def weights(flow: Flow) -> int:
        module = layer(flow)
        return sum(p.numel() for part in (module.features, module.sequence) for p in part.parameters())

    assert len({weights(flow) for flow in get_args(Flow)}) == 1


def test_a_jagged_batch_equals_row_by_row() -> None:
    module, lengths = layer(attention=BlockSelfAttention(DIM, HEADS)), [9, 3, 16]
    x, flat = torch.randn(3, TOKENS, DIM), torch.randn(sum(lengths), DIM)
    layout = BlockLayout.of(torch.tensor(lengths), BLOCK)
    features, history = module(x, layout.pack(flat), layout)
    for row, part in enumerate(flat.split(lengths)):
        alone = BlockLayout.of(torch.tensor([len(part)]), BLOCK)
        one, other = module(x[row : row + 1], alone.pack(part), alone)
        torch.testing.assert_close(one[0], features[row], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(
            alone.unpack(other), layout.unpack(history).split(lengths)[row], rtol=1e-4, atol=1e-5
        )
