"""Times of alternatives on a noisy machine: run in turns, each judged by its fastest turn.

Other work only ever adds time, so the minimum is the least disturbed measurement, and turns spread a disturbance over
all alternatives. Ratios within one call can be compared; seconds only on an idle machine.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch


def fastest(
    alternatives: Mapping[str, Callable[[], Any]],
    *,
    turns: int = 7,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Seconds of the fastest of `turns` calls of each alternative, called in turns.

    Args:
        alternatives: by name.
        turns: calls of each that are measured.
        warm_up: calls of each before that.
        clock: `time.thread_time` for work of one thread, where calls are so long that none runs undisturbed.
    """
    best = dict.fromkeys(alternatives, float("inf"))
    for turn in range(warm_up + turns):
        for name, call in alternatives.items():
            seconds = _seconds(call, clock)
            if turn >= warm_up:
                best[name] = min(best[name], seconds)
    return best


def _seconds(call: Callable[[], Any], clock: Callable[[], float]) -> float:
    _wait()
    started = clock()
    call()
    _wait()
    return clock() - started


def _wait() -> None:
    """An accelerator returns before it has finished."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
