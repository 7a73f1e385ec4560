"""The per-example feed-forward as GDPA against writing out every example's weights, on jagged histories up to 200.

Both compute W s with W = X_sum^T A for every event s of every row (`models.layers.interformer`), d = 64, 8 summary
tokens. Control: the faster of two ways to multiply by matrices that were written out - over the same packed blocks, and
over rows padded to the longest - each timed without the cost of packing. GELU, which no matrix can express, is timed
beside them.
"""

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.result import Result
from benchmarks.timing import fastest
from models.layers.blocks import BlockLayout
from models.layers.gdpa import gdpa
from training.flops import count

DIM, SUMMARY, LONGEST, BLOCK = 64, 8, 200, 32
SEEDS = (1, 2, 3)


class Rows(NamedTuple):
    """Histories packed and padded, and what their matrices are made of."""

    layout: BlockLayout
    packed: Tensor
    padded: Tensor
    keys: Tensor
    context: Tensor


def rows(count: int, seed: int) -> Rows:
    """Random histories: log-normal lengths around 55, cut at 200, as a log of a year has them; some are empty."""
    generator = torch.Generator().manual_seed(seed)
    lengths = (4.0 + torch.randn(count, generator=generator)).exp().long().clamp(max=LONGEST)
    lengths[:: max(2, count // 16)] = 0
    events = torch.randn(int(lengths.sum()), DIM, generator=generator)
    layout = BlockLayout.of(lengths, BLOCK)
    padded = torch.zeros(count, int(lengths.max()), DIM)
    padded[torch.arange(padded.shape[1]) < lengths[:, None]] = events
    keys = torch.randn(SUMMARY, DIM, generator=generator) * DIM**-0.5
    context = torch.randn(count, SUMMARY, DIM, generator=generator)
    leaves = (layout.pack(events), padded, keys, context)
    return Rows(layout, *(leaf.requires_grad_() for leaf in leaves))


def as_gdpa(data: Rows, activation: str = "identity") -> Tensor:
    """Two thin products an event; blocks [N, L, d]."""
    return gdpa(data.packed, data.keys, data.context[data.layout.row], activation=activation)


def matrices(data: Rows) -> Tensor:
    """Every row's W, transposed: [R, d, d]."""
    return data.keys.T @ data.context


def written_out(data: Rows) -> Tensor:
    """One product with the row's matrix an event; blocks [N, L, d]."""
    return data.packed @ matrices(data)[data.layout.row]


def written_out_padded(data: Rows) -> Tensor:
    """The same over padded rows: [R, longest, d]."""
    return data.padded @ matrices(data)


WAYS: dict[str, Callable[[Rows], Tensor]] = {
    "gdpa": as_gdpa,
    "gdpa_gelu": lambda data: as_gdpa(data, "gelu"),
    "written_out": written_out,
    "written_out_padded": written_out_padded,
}


def difference(data: Rows) -> float:
    """Largest |a - b| / (1 + |b|) between GDPA and the two other ways."""
    lengths = data.layout.sum_by_row(data.layout.mask.sum(1))
    events = data.layout.unpack(as_gdpa(data))
    blocks = data.layout.unpack(written_out(data))
    flat = written_out_padded(data)[torch.arange(data.padded.shape[1]) < lengths[:, None]]
    return max(((events - other).abs() / (1 + other.abs())).max().item() for other in (blocks, flat))


def seconds(data: Rows, turns: int, *, backward: bool) -> dict[str, float]:
    """Fastest turn of each way, forward or both passes."""

    def call(way: Callable[[Rows], Tensor]) -> None:
        with torch.set_grad_enabled(backward):
            out = way(data)
        if backward:
            taken = data.padded if way is written_out_padded else data.packed
            torch.autograd.grad(out, [taken, data.keys, data.context], out.detach())

    before = torch.get_num_threads()
    torch.set_num_threads(1)  # two wait for one another as soon as anything else runs
    try:
        return fastest({name: partial(call, way) for name, way in WAYS.items()}, turns=turns)
    finally:
        torch.set_num_threads(before)


def run(quick: bool) -> Result:
    """Time and compare.

    Args:
        quick: fewer turns and seeds, on as many rows.
    """
    seeds, turns = (SEEDS[:1], 20) if quick else (SEEDS, 60)
    ratios: dict[str, list[float]] = {}
    spent: dict[str, list[float]] = {}
    apart = 0.0
    for seed in seeds:
        data = rows(256, seed)
        apart = max(apart, difference(data))
        forward, both = (seconds(data, turns, backward=backward) for backward in (False, True))
        back = {name: both[name] - forward[name] for name in WAYS}
        for passed, times in {"forward": forward, "backward": back, "both": both}.items():
            control = min(times["written_out"], times["written_out_padded"])
            ratios.setdefault(f"{passed}_ratio", []).append(control / times["gdpa"])
            ratios.setdefault(f"{passed}_ratio_gelu", []).append(control / times["gdpa_gelu"])
        for name in WAYS:
            spent.setdefault(f"{name}_ms", []).append(forward[name] * 1e3)
    flops = {name: count(way, data) for name, way in WAYS.items()}
    return Result(
        figures={name: median(values) for name, values in ratios.items()} | {"largest_difference": apart},
        controls={name: median(values) for name, values in spent.items()}
        | {f"{name}_mflop": value / 1e6 for name, value in flops.items()},
        bars={"forward_ratio": (">=", 2.0), "largest_difference": ("<=", 1e-5)},
        seeds=len(seeds),
        notes={
            "sizes": {"dim": DIM, "summary_tokens": SUMMARY, "rows": 256, "block": BLOCK, "longest": LONGEST},
            "forward_ratio_by_seed": ratios["forward_ratio"],
            "threads": 1,
            "what": "the core map; projections, norms and residuals around it are the same for both",
        },
    )
