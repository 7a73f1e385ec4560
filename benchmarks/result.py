"""What a benchmark returns, and the one JSON line that it prints."""

import json
import os
import platform
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Bar = tuple[Literal[">=", "<="], float]


@dataclass(frozen=True)
class Result:
    """Figures of one run.

    Attributes:
        figures: by name, as measured.
        controls: the same for what they are compared with.
        intervals: 95 % intervals of figures.
        bars: what a figure must reach; with an interval, its near end must too.
        seeds: independent trainings behind the figures.
        notes: data and settings, for the reader of a stored result.
    """

    figures: dict[str, float]
    controls: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    bars: dict[str, Bar] = field(default_factory=dict)
    seeds: int = 1
    notes: dict[str, Any] = field(default_factory=dict)

    def met(self) -> dict[str, bool | str]:
        """For each bar: true, false, or inconclusive when only the figure itself reaches it."""
        return {name: self._met(name, bar) for name, bar in self.bars.items()}

    def _met(self, name: str, bar: Bar) -> bool | str:
        sign, wanted = bar
        low, high = self.intervals.get(name, (self.figures[name], self.figures[name]))
        worst = low if sign == ">=" else high
        if _reaches(worst, sign, wanted):
            return True
        return "inconclusive" if _reaches(self.figures[name], sign, wanted) else False


def _reaches(value: float, sign: str, wanted: float) -> bool:
    return value >= wanted if sign == ">=" else value <= wanted


def line(name: str, mode: str, result: Result, started: float) -> str:
    """The JSON line of a run."""
    content = {
        "bench": name,
        "mode": mode,
        **asdict(result),
        "met": result.met(),
        "wall_s": round(time.time() - started, 1),
        "machine": machine(),
    }
    return json.dumps(content, allow_nan=False)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    import torch

    size = 1024
    left, right = torch.randn(size, size), torch.randn(size, size)
    times = []
    for _ in range(5):
        before = time.perf_counter()
        left @ right
        times.append(time.perf_counter() - before)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0))
    return {"device": device, "cores": cores, "gemm_gflops": round(2 * size**3 / min(times) / 1e9, 1)}
