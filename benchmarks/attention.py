"""Cost of attention cores over a history's length: inside blocks and windows linear, over the whole history quadratic.

Core: normalised queries and keys, scores, softmax, values; no projection, no gradient. A time is the processor's for
one thread, the least of several turns: a slope is about work, to which threads that wait for one another and other
programs would add. It is fitted to logarithms of times over lengths.
"""

import math
from functools import partial
from time import thread_time
from typing import Any

import numpy as np
import torch

from benchmarks.result import Result
from benchmarks.timing import fastest
from models.layers.attention import BlockSelfAttention, FullSelfAttention, SelfAttention, WindowSelfAttention
from models.layers.blocks import BlockLayout
from training.flops import count

LENGTHS = (1024, 2048, 4096, 8192)
BLOCK, WINDOW, DIM, HEADS, ROWS = 64, 32, 64, 4, 1
WANTED = {"block": 1.0, "window": 1.0, "full": 2.0}


def run(quick: bool) -> Result:
    """Time all cores at all lengths.

    Args:
        quick: few turns.
    """
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _measured(turns=3 if quick else 12)
    finally:
        torch.set_num_threads(threads)


def _measured(turns: int) -> Result:
    cores = {
        "block": BlockSelfAttention(DIM, HEADS),
        "window": WindowSelfAttention(DIM, HEADS, WINDOW),
        "full": FullSelfAttention(DIM, HEADS),
    }
    calls = {(name, length): _call(core, length) for name, core in cores.items() for length in LENGTHS}
    named = {f"{name} {length}": call for (name, length), call in calls.items()}
    long = {name: named.pop(name) for name in ("full 4096", "full 8192")}
    with torch.no_grad():
        # short calls are disturbed more by what a cache holds, and cost less to repeat
        times = fastest(named, turns=10 * turns, clock=thread_time) | fastest(long, turns=turns, clock=thread_time)
    slopes = {name: _slope([times[f"{name} {length}"] for length in LENGTHS]) for name in cores}
    counted = {name: _slope([count(calls[name, length]) for length in LENGTHS]) for name in cores}
    longest = LENGTHS[-1]
    ratios = {
        f"{name}_speedup_{length}": times[f"full {length}"] / times[f"{name} {length}"]
        for name in ("block", "window")
        for length in (LENGTHS[0], longest)
    }
    off = {f"{name}_slope_off": abs(slope - WANTED[name]) for name, slope in slopes.items()}
    return Result(
        figures={"block_slope": slopes["block"], "window_slope": slopes["window"], **ratios, **off},
        controls={"full_slope": slopes["full"], **{f"{name}_flops_slope": slope for name, slope in counted.items()}},
        bars=dict.fromkeys(off, ("<=", 0.1)),
        notes={
            "milliseconds": {name: round(1e3 * seconds, 3) for name, seconds in times.items()},
            "block": BLOCK,
            "window": WINDOW,
            "dim": DIM,
            "heads": HEADS,
            "rows": ROWS,
        },
    )


def _call(core: SelfAttention, length: int) -> "partial[Any]":
    layout = BlockLayout.of(torch.full((ROWS,), length), BLOCK)
    return partial(core.attend, torch.randn(len(layout.row), BLOCK, 3 * DIM), layout, None)


def _slope(values: list[Any]) -> float:
    """Least squares of log value over log length."""
    return float(np.polyfit([math.log(length) for length in LENGTHS], [math.log(value) for value in values], 1)[0])
