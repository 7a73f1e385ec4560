"""InterFormer's two flows on a planted task that needs both.

A user's attribute says which kind of past event matters, and the history says which attribute matters: the logit of a
label adds the usual value of the events of kind a(x) and the attribute number t(s). Arms differ in who tells whom; a
flow that is cut is replaced by learned tokens, and the arm gets wider FM blocks for what it saves. The head reads the
last two summaries, as in the paper. Control: a world in which each side matters by itself, and the true chances.
"""

from statistics import mean

import torch
from torch import Tensor, nn

from benchmarks.planted import Sample, fit, judge, paired_interval
from benchmarks.result import Bar, Result
from models.layers.attention import FullSelfAttention
from models.layers.blocks import BlockLayout
from models.layers.interformer import (
    ContextSummary,
    Flow,
    HistorySummary,
    InterFormerLayer,
    LearnedTokens,
    SummarySizes,
    with_cls,
)
from models.layers.mlp import MLP
from models.layers.wukong import WukongLayer
from training.flops import count

KINDS, ATTRIBUTES, LONGEST, BLOCK = 6, 16, 24, 32
DIM, HEADS, LAYERS = 16, 2, 2
TOKENS = 1 + ATTRIBUTES
# narrow, so that a side cannot hand over everything it has without being told what is wanted
SIZES = SummarySizes(context=1, pooled=1, recent=1)
ROWS, RATE = 256, 5e-3
HIDDEN: dict[Flow, int] = {"none": 176, "x_to_s": 168, "s_to_x": 52, "both": 32}
"""Width of the FM blocks' MLP: a cut flow costs nothing, so what is left gets at least as many FLOPs as the whole."""
FLOWS = tuple(HIDDEN)


class Net(nn.Module):
    """Two InterFormer layers and a head on both summaries.

    Args:
        flow: who tells whom.
    """

    def __init__(self, flow: Flow) -> None:
        super().__init__()
        self.x_to_s = flow in ("x_to_s", "both")
        self.wish = nn.Embedding(KINDS, DIM)
        self.attributes = nn.Parameter(torch.randn(ATTRIBUTES, 2, DIM))
        self.event = nn.ModuleList(nn.Embedding(rows, DIM) for rows in (KINDS, 2, ATTRIBUTES))
        self.cls = self._context() if self.x_to_s else LearnedTokens(SIZES.context, DIM)
        self.layers = nn.ModuleList(self._layer(flow) for _ in range(LAYERS))
        self.context = self._context()
        self.history = HistorySummary(dim=DIM, heads=HEADS, sizes=SIZES)
        self.head = MLP((SIZES.context + SIZES.history) * DIM, (16,), 1)

    @staticmethod
    def _context() -> ContextSummary:
        return ContextSummary(tokens=TOKENS, dim=DIM, summary=SIZES.context)

    @staticmethod
    def _layer(flow: Flow) -> InterFormerLayer:
        interaction = WukongLayer(
            tokens=TOKENS + SIZES.history, dim=DIM, fm_tokens=4, linear_tokens=4, rank=4, hidden=(HIDDEN[flow],)
        )
        return InterFormerLayer(
            tokens=TOKENS,
            dim=DIM,
            heads=HEADS,
            sizes=SIZES,
            interaction=interaction,
            attention=FullSelfAttention(DIM, HEADS),
            flow=flow,
        )

    def forward(self, ids_BN: Tensor, events_TE: Tensor, lengths_B: Tensor) -> Tensor:
        """Attributes [B, n], events [T, 3], lengths [B] -> logits [B]."""
        held = self.attributes[torch.arange(ATTRIBUTES), ids_BN[:, 1:]]
        x_BND = torch.cat([self.wish(ids_BN[:, :1]), held], dim=1)
        events = torch.stack([table(column) for table, column in zip(self.event, events_TE.T, strict=True)]).sum(0)
        layout = BlockLayout.of(lengths_B, BLOCK)
        cls = self.cls(x_BND if self.x_to_s else len(x_BND))
        s_NLD, layout, _ = with_cls(layout.pack(events), layout, cls)
        for layer in self.layers:
            x_BND, s_NLD = layer(x_BND, s_NLD, layout)
        summaries = torch.cat([self.context(x_BND), self.history(s_NLD, layout)], dim=1)
        logits: Tensor = self.head(summaries.flatten(1))
        return logits.squeeze(1)


def draw(generator: torch.Generator, rows: int, planted: bool) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """Inputs of the net, and the true logits [B]."""

    def integers(top: int, *shape: int) -> Tensor:
        return torch.randint(0, top, shape, generator=generator)

    wish, held = integers(KINDS, rows, 1), integers(2, rows, ATTRIBUTES)
    usual, subject = integers(2, rows, KINDS), integers(ATTRIBUTES, rows)
    lengths = 6 + integers(LONGEST - 5, rows)
    row = torch.repeat_interleave(torch.arange(rows), lengths)
    kind = integers(KINDS, len(row))
    as_usual, on_subject = (torch.rand(2, len(row), generator=generator) < torch.tensor([[0.9], [0.6]])).unbind()
    value = torch.where(as_usual, usual[row, kind], 1 - usual[row, kind])
    about = torch.where(on_subject, subject[row], integers(ATTRIBUTES, len(row)))
    matters = wish.squeeze(1) if planted else torch.zeros(rows, dtype=torch.long)
    asked = subject if planted else torch.zeros(rows, dtype=torch.long)
    place = torch.arange(rows)
    logit = 2.0 * (2.0 * usual[place, matters] - 1.0) + 2.0 * (2.0 * held[place, asked] - 1.0)
    return (torch.cat([wish, held], 1), torch.stack([kind, value, about], 1), lengths), logit


def world(planted: bool) -> Sample:
    """Labels from true logits."""

    def sample(generator: torch.Generator, rows: int) -> tuple[tuple[Tensor, ...], Tensor]:
        inputs, logit = draw(generator, rows, planted)
        return inputs, (torch.rand(rows, generator=generator) < logit.sigmoid()).float()

    return sample


def areas(planted: bool, seeds: int, steps: int) -> dict[Flow, list[float]]:
    """AUC of each arm by seed, on the same rows."""
    sample, found = world(planted), {flow: [0.0] * seeds for flow in FLOWS}
    for seed in range(seeds):
        for flow in FLOWS:
            torch.manual_seed(seed)
            model = Net(flow)
            fit(model, sample, steps=steps, rows=ROWS, rate=RATE, seed=seed)
            found[flow][seed], _ = judge(model.eval(), sample, rows=8192, seed=1000 + seed)
    return found


def gains(areas: dict[Flow, list[float]]) -> dict[str, list[float]]:
    """Differences by seed: both over the better of one way, each one way over none."""
    one_way = list(map(max, areas["x_to_s"], areas["s_to_x"]))
    return {
        "both_over_one_way": [a - b for a, b in zip(areas["both"], one_way, strict=True)],
        "x_to_s_over_none": [a - b for a, b in zip(areas["x_to_s"], areas["none"], strict=True)],
        "s_to_x_over_none": [a - b for a, b in zip(areas["s_to_x"], areas["none"], strict=True)],
    }


def run(quick: bool) -> Result:
    """Train the four arms in both worlds.

    Args:
        quick: two seeds and few steps, without bars.
    """
    torch.set_num_threads(1)  # the matrices are too small for two
    seeds, steps = (2, 10) if quick else (4, 800)
    planted, plain = areas(True, seeds, steps), areas(False, seeds, steps)
    differences = gains(planted) | {f"{name}_unplanted": values for name, values in gains(plain).items()}
    found = {name: paired_interval(values) for name, values in differences.items()}
    bars: dict[str, Bar] = {name: (">=", 0.0) for name in gains(planted)}
    return Result(
        figures={name: value for name, (value, _) in found.items()},
        controls={f"{flow}_auc": mean(values) for flow, values in planted.items()}
        | {f"{flow}_unplanted_auc": mean(values) for flow, values in plain.items()},
        intervals={name: interval for name, (_, interval) in found.items()},
        bars={} if quick else bars,
        seeds=seeds,
        notes={"steps": steps, "rows_a_step": ROWS, "sizes": sizes(), "auc_by_seed": planted},
    )


def sizes() -> dict[str, dict[str, int]]:
    """Parameters, and FLOPs of both passes of a batch, of every arm."""
    inputs, _ = draw(torch.Generator().manual_seed(0), ROWS, planted=True)
    found: dict[str, dict[str, int]] = {}
    for flow in FLOWS:
        model = Net(flow)
        flops = count(model, *inputs, backward=True)
        found[flow] = {"parameters": sum(p.numel() for p in model.parameters()), "flops": flops}
    return found
