"""What does it take to get from a raw log to examples and labels: minutes, memory, and how cost grows with days?

Each measurement is a process of its own: start, extraction, all tables between, examples and labels, in one range run
as the product's assets make them, every gate included. The memory of the whole tree is added up meanwhile, JVM and
Python workers too.

A year's first months are cheaper than the others, since the longest window of the statistics takes 84 days to fill. The
slope of time over days is therefore that of spans which all begin in spring, with the purchases before as history; it
is taken in logarithms, after the time of the shortest span, which is start-up and that history, was subtracted.

A span that was measured with the present code is not measured again: a run that ended early goes on where it was.
"""

import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.process_tree import watched
from benchmarks.result import Bar, Result
from features.days import day_range, shift
from features.worlds import World, load_world

if TYPE_CHECKING:
    from features.tables import Tables

YEAR, SPRING, SYNTHETIC, SLICE = "year", "spring", "synthetic", "slice"
SPRING_DAY = "2017-04-01"
SPANS = (2, 32, 62, 122, 242)
"""Days from spring on, all households; the first two are start-up."""
SYNTHETIC_ROWS, SYNTHETIC_DAYS = 10_000_000, 31
"""The world's own 90 days would triple its organic events, of which it has ten a user and day, and nothing else."""
QUICK_DAYS = 3
"""Of the shipped slice, which starts with all earlier purchases of its households."""
GIB = 1 << 30
PEAK: Bar = ("<=", 8.0)


def world_of(log: str) -> World:
    """The world of a measurement."""
    if log in (YEAR, SPRING):
        from benchmarks.rivals.world import year_world

        world = year_world()
        closed = (SPRING_DAY, *world.closed_days)
        return world if log == YEAR else world.model_copy(update={"first_day": SPRING_DAY, "closed_days": closed})
    if log == SLICE:
        return load_world("complete_journey")
    world = load_world("synthetic_ads")
    source = world.source.model_copy(update={"options": {**world.source.options, "rows": SYNTHETIC_ROWS}})
    return world.model_copy(update={"source": source, "last_day": shift(world.first_day, SYNTHETIC_DAYS - 1)})


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
    """One measurement, in this process; what it found is a line of JSON."""
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
        tree = watched(command, {**os.environ, "GEMLINE_HOME": home, "GX_ANALYTICS_ENABLED": "false"})
    if tree.code:
        raise RuntimeError(f"extract of {count} days of {log} failed:\n{tree.said[-2_000:]}")
    # the JVM may say good-bye after it
    figures = next(line for line in reversed(tree.said.splitlines()) if line.startswith("{"))
    found = {**json.loads(figures), "seconds": tree.seconds, "cpu_seconds": tree.cpu_seconds, "peak": tree.peak}
    kept.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return found


def _folder() -> Path:
    from features.home import gemline_home

    folder = gemline_home() / "benches" / "extract"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _kept(name: str) -> Path:
    """File of a measurement; the hash in its name leaves out models and training, of which nothing is run here."""
    here = Path(__file__).parent
    code = [*(here.parent / "features").rglob("*.py"), *(here.parent / "features").rglob("*.yaml")]
    digest = hashlib.sha256()
    for path in sorted([*code, Path(__file__), here / "rivals" / "world.py"]):
        digest.update(path.read_bytes())
    return _folder() / f"{name}-{digest.hexdigest()[:16]}.json"


def slope(runs: Sequence[dict[str, Any]], cost: str = "seconds") -> float:
    """Slope of log(cost) over log(days) after the first run's cost and days were subtracted from the others."""
    start, *rest = runs
    days = np.log([run["days"] - start["days"] for run in rest])
    return float(np.polyfit(days, np.log([run[cost] - start[cost] for run in rest]), 1)[0])


def run(quick: bool) -> Result:
    """Measure all spans.

    Args:
        quick: three days of the shipped slice, once; no slope.
    """
    if quick:
        found = measured(SLICE, QUICK_DAYS)
        figures = {
            "seconds": found["seconds"],
            "cpu_seconds": found["cpu_seconds"],
            "peak_gib": found["peak"] / GIB,
            "impressions": found["impressions"],
        }
        return Result(figures | _stages("", found), bars={"peak_gib": PEAK}, notes={"days": found["days"]})
    year, spans = measured(YEAR, 365), [measured(SPRING, days) for days in SPANS]
    synthetic = measured(SYNTHETIC, SYNTHETIC_DAYS)
    figures = {
        "year_minutes": year["seconds"] / 60,
        "year_cpu_minutes": year["cpu_seconds"] / 60,
        "year_impressions": year["impressions"],
        "peak_gib": max(one["peak"] for one in (year, synthetic, *spans)) / GIB,
        "slope_in_days": slope(spans),
        "slope_error": abs(slope(spans) - 1),
        "slope_of_cpu_in_days": slope(spans, "cpu_seconds"),
        "synthetic_minutes": synthetic["seconds"] / 60,
        "synthetic_impressions": synthetic["impressions"],
        **_stages("year_", year),
        **_stages("synthetic_", synthetic),
    }
    bars: dict[str, Bar] = {
        "year_minutes": ("<=", 10.0),
        "peak_gib": PEAK,
        "slope_error": ("<=", 0.1),
        "synthetic_impressions": (">=", 1e7),
    }
    notes = {
        "spans": {one["days"]: round(one["seconds"], 1) for one in spans},
        "peaks_gib": {"year": year["peak"] / GIB, "synthetic": synthetic["peak"] / GIB},
    }
    return Result(figures, {"start_up_s": spans[0]["seconds"]}, bars=bars, notes=notes)


def _stages(prefix: str, found: dict[str, Any]) -> dict[str, float]:
    return {f"{prefix}{name}_s": seconds for name, seconds in found["stages"].items()}


if __name__ == "__main__":
    child(sys.argv[1], int(sys.argv[2]), sys.argv[3])
