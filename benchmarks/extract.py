"""What does it take to get from a raw log to examples and labels: minutes, memory, and how cost grows with days?

Each measurement is a process of its own: start, extraction, all tables between, examples and labels, in one range run
as the product's assets make them, every gate included. Beside it another process adds up the memory of the whole tree,
JVM and Python workers too. The cost of days is the slope of time over days in logarithms, after the time of a run
over two days, which is start-up and little else, was subtracted.

A span that was measured with the present code is not measured again: a run that ended early goes on where it was.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.result import Bar, Result
from features.days import day_range, shift
from features.worlds import World, load_world

if TYPE_CHECKING:
    from features.tables import Tables

YEAR, SYNTHETIC, SLICE = "year", "synthetic", "slice"
SPANS = (2, 30, 60, 120, 365)
"""Days of Complete Journey in full, all households; the first two are start-up."""
SYNTHETIC_ROWS = 10_000_000
QUICK_DAYS = 3
"""Of the shipped slice, which starts with all earlier purchases of its households."""
GIB = 1 << 30
EVERY_S = 0.25
"""Between two looks at the memory."""


def world_of(log: str) -> World:
    """The world of a measurement."""
    if log == YEAR:
        from benchmarks.rivals.world import year_world

        return year_world()
    if log == SLICE:
        return load_world("complete_journey")
    world = load_world("synthetic_ads")
    options = {**world.source.options, "rows": SYNTHETIC_ROWS}
    return world.model_copy(update={"source": world.source.model_copy(update={"options": options})})


def build(world: World, days: Sequence[str], tables: "Tables") -> dict[str, float]:
    """Raw log to examples and labels; seconds by stage."""
    from features import examples, history, labels, stats
    from features.sources.base import extract
    from features.sources.canonical import TABLES
    from features.store.repo import apply

    spark, took = tables.spark, {}

    def ingest() -> None:
        extracted = extract(spark, world, days)
        if extracted.refused is not None:
            tables.quarantine(extracted.refused, days)
        for table in TABLES:
            tables.publish(table, extracted.tables[table], days)

    def published(name: str, compute: Callable[..., Any], expected: Callable[..., Any] | None = None) -> None:
        counts = expected(spark, world, days, tables) if expected else None
        tables.publish(name, compute(spark, world, days, tables), days, counts)

    stages: dict[str, Callable[[], Any]] = {
        "ingest": ingest,
        "feature_store": lambda: apply(world, tables.home),
        "user_stats": lambda: published("user_stats", stats.user_stats),
        "ad_stats": lambda: published("ad_stats", stats.ad_stats),
        "user_history": lambda: published("user_history", history.user_history),
        "examples": lambda: published("examples", examples.examples, examples.expected_rows),
        "labels": lambda: published("labels", labels.labels, labels.expected_pairs),
    }
    for name, stage in stages.items():
        started = time.perf_counter()
        stage()
        took[name] = time.perf_counter() - started
    return took


def child(log: str, count: int, home: str) -> None:
    """One measurement, in this process; its last line is JSON."""
    from features.home import Home
    from features.spark import session
    from features.tables import Tables

    started = time.perf_counter()
    world = world_of(log)
    last = world.last_day or world.first_day
    days = day_range(world.first_day, min(last, shift(world.first_day, count - 1)))
    tables = Tables(session(), world, Home(Path(home) / world.name))
    took = {"session": time.perf_counter() - started, **build(world, days, tables)}
    rows = {
        name: sum(gate.rows for gate in tables.ledger.published(name).values()) for name in ("impressions", "labels")
    }
    print(json.dumps({"days": len(days), **rows, "stages": took}))


def measured(log: str, count: int) -> dict[str, Any]:
    """One measurement in a process tree of its own: its figures, seconds in all, and the most memory in bytes.

    Raises:
        RuntimeError: it failed; carries the end of what it said.
    """
    kept = _kept(f"{log}-{count}")
    if kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return found
    with tempfile.TemporaryDirectory(prefix="extract-", dir=_folder()) as home:
        command = [sys.executable, "-m", "benchmarks.extract", log, str(count), home]
        environment = {**os.environ, "GEMLINE_HOME": home, "GX_ANALYTICS_ENABLED": "false"}
        started = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        peak: list[int] = [0]
        watch = threading.Thread(target=_watch, args=(process, peak), daemon=True)
        watch.start()
        said, _ = process.communicate()
        seconds = time.perf_counter() - started
        watch.join()
    if process.returncode:
        raise RuntimeError(f"extract of {count} days of {log} failed:\n{said[-2_000:]}")
    found = {**json.loads(said.splitlines()[-1]), "seconds": seconds, "peak": peak[0]}
    kept.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return found


def _watch(process: "subprocess.Popen[str]", peak: list[int]) -> None:
    """Keep the most memory that the process and all below it held at once; shared pages count for each holder."""
    import psutil

    root = psutil.Process(process.pid)
    while process.poll() is None:
        held = 0
        try:
            tree = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for one in tree:
            try:
                held += one.memory_info().rss
            except psutil.NoSuchProcess:
                continue  # it ended between two looks
        peak[0] = max(peak[0], held)
        time.sleep(EVERY_S)


def _folder() -> Path:
    from features.home import gemline_home

    folder = gemline_home() / "benches" / "extract"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _kept(name: str) -> Path:
    from benchmarks.__main__ import code_hash

    return _folder() / f"{name}-{code_hash()}.json"


def slope(runs: Sequence[dict[str, Any]]) -> float:
    """Slope of log(seconds) over log(days) after the first run's time and days were subtracted from the others."""
    start, *rest = runs
    days = np.log([run["days"] - start["days"] for run in rest])
    seconds = np.log([run["seconds"] - start["seconds"] for run in rest])
    return float(np.polyfit(days, seconds, 1)[0])


def run(quick: bool) -> Result:
    """Measure all spans.

    Args:
        quick: three days of the shipped slice, once; no slope.
    """
    if quick:
        found = measured(SLICE, QUICK_DAYS)
        figures = {"seconds": found["seconds"], "peak_gib": found["peak"] / GIB, "impressions": found["impressions"]}
        stages = {f"{name}_s": seconds for name, seconds in found["stages"].items()}
        return Result(figures | stages, bars={"peak_gib": ("<=", 8.0)}, notes={"days": found["days"]})
    runs = [measured(YEAR, days) for days in SPANS]
    year, synthetic = runs[-1], measured(SYNTHETIC, 365)
    figures = {
        "year_minutes": year["seconds"] / 60,
        "peak_gib": max(one["peak"] for one in (*runs, synthetic)) / GIB,
        "slope_in_days": slope(runs),
        "slope_error": abs(slope(runs) - 1),
        "year_impressions": year["impressions"],
        "synthetic_impressions": synthetic["impressions"],
        "synthetic_minutes": synthetic["seconds"] / 60,
        **{f"year_{name}_s": seconds for name, seconds in year["stages"].items()},
    }
    bars: dict[str, Bar] = {
        "year_minutes": ("<=", 10.0),
        "peak_gib": ("<=", 8.0),
        "slope_error": ("<=", 0.1),
        "synthetic_impressions": (">=", 1e7),
    }
    notes = {"spans": {run["days"]: round(run["seconds"], 1) for run in runs}}
    return Result(figures, {"start_up_s": runs[0]["seconds"]}, bars=bars, notes=notes)


if __name__ == "__main__":
    child(sys.argv[1], int(sys.argv[2]), sys.argv[3])
