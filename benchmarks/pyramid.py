"""The pyramid's cost, and a period longer than a block that it recovers where blocks alone fail at equal FLOPs.

Plant: a user's history is a chain of segments of like events, met from a phase of the user's own. Of users with a habit
each cycle repeats the order of the last one; of others either half of a cycle is turned by a few segments from cycle to
cycle. The label is the habit. Both kinds of user have equal sums over any cycle and equal distributions within any
block: only events about a period apart tell them apart. Without the plant no cycle repeats, and the label depends on
the user's mean event.

Arms: the pyramid; and as many FLOPs or more in two layers of the same modules, the second on blocks shifted by half,
whose pooling has as many seeds and tokens as all levels of the pyramid have together.
"""

from collections.abc import Callable
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.planted import Sample, fit, judge, paired_interval
from benchmarks.result import Bar, Result
from models.layers.attention import BlockSelfAttention
from models.layers.blocks import BlockLayout
from models.layers.events import age_features
from models.layers.mlp import MLP
from models.layers.pooling import SeedPooling
from models.layers.pyramid import Pyramid, PyramidLevel
from models.layers.rotary import Rotation, TemporalRotary
from training.flops import count

WIDTH, SEGMENT, SEGMENTS, CYCLES, NOISE = 16, 8, 8, 2, 0.5
PERIOD, EVENTS = SEGMENT * SEGMENTS, SEGMENT * SEGMENTS * CYCLES
BLOCK, DIM, HEADS, LEVELS, RATIO, TOKENS, SEEDS, TERMS, RANK = 16, 32, 2, 4, 2, 4, 16, 4, 8
CONTEXT, ROWS, RATE = 4, 48, 3e-3


def chains(generator: torch.Generator, repeats: Tensor) -> Tensor:
    """Histories [rows, EVENTS, WIDTH]; where `repeats` (bool [rows]) every cycle has the same order.

    Either half of a cycle has its own segments, so that without a repeat, too, none recurs within a block.
    """
    rows, half = len(repeats), SEGMENTS // 2
    segments = torch.randn(rows, SEGMENTS, WIDTH, generator=generator)
    turn = torch.randint(1, half, (rows, 1, 1), generator=generator) * ~repeats[:, None, None]
    place = (torch.arange(half) + turn * torch.arange(CYCLES + 1)[:, None]) % half
    orders = torch.cat([place, place + half], dim=2).flatten(1)
    phase = torch.randint(0, PERIOD, (rows, 1), generator=generator)
    segment = orders.gather(1, (phase + torch.arange(EVENTS)) // SEGMENT)
    clean = segments.gather(1, segment[..., None].expand(-1, -1, WIDTH))
    return clean + NOISE * torch.randn(clean.shape, generator=generator)


def planted(generator: torch.Generator, rows: int) -> tuple[tuple[Tensor, ...], Tensor]:
    """The label is the habit."""
    habit = torch.rand(rows, generator=generator) < 0.5
    return (chains(generator, habit),), habit.float()


def unplanted(generator: torch.Generator, rows: int) -> tuple[tuple[Tensor, ...], Tensor]:
    """No habits; the label is drawn from the mean event."""
    x = chains(generator, torch.zeros(rows, dtype=torch.bool))
    logit = 3.0 * x.mean(1)[:, :4].sum(1)
    return (x,), (torch.rand(rows, generator=generator) < logit.sigmoid()).float()


class Flat(nn.Module):
    """Two layers of a pyramid's lowest level, the second shifted by half a block, and one pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            PyramidLevel(dim=DIM, heads=HEADS, block=BLOCK, window=None, rank=RANK, ratio=None) for _ in range(2)
        )
        self.layers[1].attention = BlockSelfAttention(DIM, HEADS, shift=True)
        self.pool = SeedPooling(dim=DIM, heads=HEADS, seeds=LEVELS * SEEDS, tokens=LEVELS * TOKENS, terms=TERMS)

    def forward(self, x_NLD: Tensor, layout: BlockLayout, context_RCD: Tensor, rotation: Rotation) -> Tensor:
        """As `Pyramid`."""
        for layer in self.layers:
            x_NLD = layer(x_NLD, layout, context_RCD, rotation)
        result: Tensor = self.pool(x_NLD, layout)
        return result


def pyramid() -> Pyramid:
    """The arm that is judged; a block of its top holds the whole history."""
    return Pyramid(
        dim=DIM,
        heads=HEADS,
        levels=LEVELS,
        ratio=RATIO,
        tokens=TOKENS,
        block=BLOCK,
        rank=RANK,
        seeds=SEEDS,
        terms=TERMS,
    )


class Arm(nn.Module):
    """Events -> logit, through one body or the other."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.event = nn.Linear(WIDTH, DIM)
        self.age = nn.Linear(6, DIM)
        self.context = nn.Parameter(torch.randn(CONTEXT, DIM))
        self.rotary = TemporalRotary(DIM // HEADS, time_scale_days=1.0, base=1000.0)
        self.body = body
        self.head = MLP(LEVELS * TOKENS * DIM, (64,), 1)

    def forward(self, x_RTE: Tensor) -> Tensor:
        """[rows, EVENTS, WIDTH] -> [rows]; an event is a day older than the next."""
        layout = BlockLayout.of(torch.full((len(x_RTE),), x_RTE.shape[1]), BLOCK)
        age = layout.index.float()
        x_NLD = self.event(x_RTE).view(-1, BLOCK, DIM) + self.age(age_features(age.flatten())).view(-1, BLOCK, DIM)
        summary = self.body(x_NLD, layout, self.context.repeat(len(x_RTE), 1, 1), self.rotary(age, layout.index))
        logit: Tensor = self.head(summary.flatten(1))[:, 0]
        return logit


ARMS: dict[str, Callable[[], nn.Module]] = {"pyramid": pyramid, "flat": Flat}


def run(quick: bool) -> Result:
    """Count, train all arms in both worlds, compare by seed.

    Args:
        quick: one seed and few steps; says nothing about quality.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # at these sizes threads wait more than they work
    try:
        return _compared(seeds=1 if quick else 3, steps=40 if quick else 300, rows=500 if quick else 4000)
    finally:
        torch.set_num_threads(threads)


def _compared(seeds: int, steps: int, rows: int) -> Result:
    figures, controls = _costs(), dict[str, float]()
    intervals, notes = dict[str, tuple[float, float]](), dict[str, Any]()
    figures["flat_flops_over_pyramid"] = _flops("flat") / _flops("pyramid")
    bars: dict[str, Bar] = {"cost_over_bound_2": ("<=", 1.0), "cost_over_bound_4": ("<=", 1.0)}
    bars["flat_flops_over_pyramid"] = (">=", 1.0)
    for world, sample in (("planted", planted), ("unplanted", unplanted)):
        found = {name: [_auc(name, sample, seed, steps, rows) for seed in range(seeds)] for name in ARMS}
        gains = [one - other for one, other in zip(found["pyramid"], found["flat"], strict=True)]
        figures[f"{world}_auc"], controls[f"{world}_flat_auc"] = fmean(found["pyramid"]), fmean(found["flat"])
        figures[f"{world}_gain"] = fmean(gains)
        notes |= {f"{world}_{name}_auc_by_seed": values for name, values in found.items()}
        if seeds > 1:
            _, intervals[f"{world}_gain"] = paired_interval(gains)
            _, intervals[f"{world}_auc"] = paired_interval(found["pyramid"])
    if seeds > 1:  # one seed judges nothing
        figures["unplanted_gain_at_most"] = max(map(abs, intervals["unplanted_gain"]))
        bars |= {"planted_auc": (">=", 0.9), "planted_gain": (">=", 0.1), "unplanted_gain_at_most": ("<=", 0.02)}
    sizes = {"events": EVENTS, "period": PERIOD, "block": BLOCK, "dim": DIM, "steps": steps, "rows": ROWS}
    return Result(figures, controls, intervals, bars, seeds, notes | sizes)


def _auc(name: str, sample: Sample, seed: int, steps: int, rows: int) -> float:
    """Area under the curve of one arm, trained; arms of a seed see the same examples."""
    torch.manual_seed(seed)
    arm = Arm(ARMS[name]())
    fit(arm, sample, steps=steps, rows=ROWS, rate=RATE, seed=1000 + seed)
    return judge(arm, sample, rows=rows, seed=2000 + seed)[0]


def _flops(name: str) -> int:
    return count(Arm(ARMS[name]()), torch.randn(8, EVENTS, WIDTH))


def _costs() -> dict[str, float]:
    """What an event costs on all levels over what it costs on the lowest, at the product's block of 64.

    Slopes in the length, since poolings and the context's keys cost the same whatever the length.
    """
    found = {}
    for ratio, levels in ((2, 4), (4, 3)):
        step = 64 * ratio ** (levels - 1)
        (whole, base), (longer, longer_base) = (_cost(ratio, levels, step * times) for times in (4, 8))
        found[f"cost_over_base_{ratio}"] = (longer - whole) / (longer_base - base)
        found[f"cost_over_bound_{ratio}"] = found[f"cost_over_base_{ratio}"] * (ratio - 1) / ratio
        found[f"whole_cost_over_base_{ratio}"] = longer / longer_base
    return found


def _cost(ratio: int, levels: int, events: int) -> tuple[int, int]:
    """FLOPs of a pyramid over one history, and of its lowest level with its merging and pooling."""
    body = Pyramid(dim=64, heads=4, levels=levels, ratio=ratio, tokens=TOKENS)
    layout = BlockLayout.of(torch.tensor([events]), 64)
    x_NLD, context = torch.randn(*layout.mask.shape, 64), torch.randn(1, CONTEXT, 64)
    level = body.levels[0]
    assert isinstance(level, PyramidLevel)
    parts = (count(level, x_NLD, layout, context), count(level.rise, x_NLD, layout, None))
    return count(body, x_NLD, layout, context), sum(parts) + count(body.pools[0], x_NLD, layout)
