"""How long does it take to evaluate ten million scored rows, in how much memory, and how exact is the streamed AUC?

All metrics with intervals, of two tasks overall and by surface, frequency of user and ad, and day, from rows that are
made a batch at a time. A quarter of the rows shows whether memory grows with them. The control is the exact way in
memory: one pandas frame, a sort a slice, a group-by a user and request, and no intervals at all. Every measurement is a
process of its own.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.process_tree import watched
from benchmarks.result import Bar, Result
from features.days import shift

if TYPE_CHECKING:
    import pyarrow as pa

ROWS, QUICK_ROWS, BATCH = 10_000_000, 200_000, 500_000
USERS, SLATE, DAYS = 500_000, 10, 14
TASKS, SURFACES = ("click", "conversion"), ("feed", "story", "reel", "search")
RESAMPLES = 500
STREAMED, EXACT = "streamed", "exact"
GIB = 1 << 30
BARS: dict[str, Bar] = {
    "seconds": ("<=", 60.0),
    "auc_error": ("<=", 1e-4),
    "auc_error_bound": ("<=", 1e-4),
    "peak_growth": ("<=", 1.3),
}


def batches(rows: int, seed: int = 0) -> Iterator["pa.Table"]:
    """Scored rows, `BATCH` at a time: requests of `SLATE` ads, labels drawn from the true probabilities."""
    import pyarrow as pa

    days = [shift("2024-03-01", day) for day in range(DAYS)]
    for first in range(0, rows, BATCH):
        rng = np.random.default_rng([seed, first])
        n = min(BATCH, rows - first)
        request = np.repeat(np.arange(first, first + n, SLATE), SLATE)[:n]
        # users differ in how often they come
        user = (USERS * rng.random(len(request) // SLATE + 1) ** 2).astype(np.int64)[(request - first) // SLATE]
        task = rng.integers(0, len(TASKS), n)
        logit = rng.normal(-2.5 - task, 1.2)
        label = rng.random(n) < 1 / (1 + np.exp(-logit))
        yield pa.table(
            {
                "ds": _named(days, request // SLATE % DAYS),
                "task": _named(TASKS, task),
                "surface": _named(SURFACES, rng.integers(0, len(SURFACES), n)),
                "impression_id": np.arange(first, first + n),
                "request_id": request,
                "user_id": pa.array(user, mask=rng.random(n) < 0.02),
                "label": label.astype(np.float64),
                "weight": np.where(label, 1.0, 4.0),
                "value": rng.exponential(1.0, n),
                "user_seen": rng.geometric(0.03, n) - 1,
                "ad_seen": rng.geometric(0.003, n) - 1,
                "prediction": 1 / (1 + np.exp(-logit + rng.normal(0, 0.7, n))),
            }
        )


def _named(names: Any, codes: np.ndarray) -> "pa.Array":
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(list(names)))


def streamed(rows: int) -> dict[str, Any]:
    """AUC and bound of its error, by slice."""
    from training.evaluate import evaluate

    table = evaluate(batches(rows), n_min=1, resamples=RESAMPLES)
    found = {f"{row.task} {row.by} {row.value}": row.estimates["auc"] for row in table if row.status == "ok"}
    missing = [name for name, auc in found.items() if auc.interval is None]
    return {
        "auc": {name: auc.value.number for name, auc in found.items()},
        "bound": max(auc.value.error or 0.0 for auc in found.values()),
        "without_interval": len(missing),
    }


def exact(rows: int) -> dict[str, Any]:
    """AUC by slice, and with it every other metric, without intervals, of one frame in memory."""
    import pyarrow as pa

    from training.slices import BUCKETS, STEPS

    frame = pa.concat_tables(batches(rows)).to_pandas()
    names = np.array(BUCKETS, dtype=object)
    for of in ("user", "ad"):
        frame[f"{of}_frequency"] = names[np.searchsorted(STEPS, frame[f"{of}_seen"], side="right")]
    found = {}
    for task, rows_of_task in frame.groupby("task", observed=True):
        found[f"{task} all None"] = _metrics(rows_of_task)
        for by, column in {**{by: by for by in ("surface", "user_frequency", "ad_frequency")}, "day": "ds"}.items():
            for value, part in rows_of_task.groupby(column, observed=True):
                found[f"{task} {by} {value}"] = _metrics(part)
    return {"auc": found}


def _metrics(rows: Any) -> float:
    import pandas as pd

    from training import metrics
    from training.metrics import Sample

    label, prediction, weight, value = (rows[name].to_numpy() for name in ("label", "prediction", "weight", "value"))
    plain, valued = Sample.of(label, prediction, weight), Sample.of(label, prediction, weight * value)
    for column in ("user_id", "request_id"):
        metrics.gauc(plain, pd.factorize(rows[column])[0])
    for sample in (plain, valued):
        metrics.normalized_entropy(sample)
        metrics.calibration(sample)
    area = metrics.auc(plain).number
    assert area is not None
    return area


def measured(how: str, rows: int) -> dict[str, Any]:
    """One way in a process of its own: what it found, seconds and peak bytes.

    Raises:
        RuntimeError: it failed; carries the end of what it said.
    """
    tree = watched([sys.executable, "-m", "benchmarks.evaluate", how, str(rows)], os.environ)
    if tree.code:
        raise RuntimeError(f"{how} evaluation of {rows} rows failed:\n{tree.said[-2_000:]}")
    return {**json.loads(tree.said.splitlines()[-1]), "peak": tree.peak, "cpu_seconds": tree.cpu_seconds}


def run(quick: bool) -> Result:
    """Measure.

    Args:
        quick: fewer rows; neither seconds nor memory are judged.
    """
    rows = QUICK_ROWS if quick else ROWS
    own, quarter, control = measured(STREAMED, rows), measured(STREAMED, rows // 4), measured(EXACT, rows)
    if own["auc"].keys() != control["auc"].keys():
        raise RuntimeError(f"other slices than those of the control: {own['auc'].keys() ^ control['auc'].keys()}")
    figures = {
        "rows": rows,
        "slices": len(own["auc"]),
        "seconds": own["seconds"],
        "cpu_seconds": own["cpu_seconds"],
        "peak_gib": own["peak"] / GIB,
        "peak_growth": own["peak"] / quarter["peak"],
        "auc_error": max(abs(own["auc"][name] - area) for name, area in control["auc"].items()),
        "auc_error_bound": own["bound"],
    }
    controls = {
        "seconds": control["seconds"],
        "peak_gib": control["peak"] / GIB,
        "quarter_seconds": quarter["seconds"],
        "quarter_peak_gib": quarter["peak"] / GIB,
    }
    judged = ("auc_error", "auc_error_bound") if quick else tuple(BARS)
    notes = {"resamples": RESAMPLES, "users": USERS, "without_interval": own["without_interval"]}
    return Result(figures, controls, bars={name: BARS[name] for name in judged}, notes=notes)


def child(how: str, rows: int) -> None:
    """One measurement, in this process; making the rows is part of it."""
    started = time.perf_counter()
    found = {STREAMED: streamed, EXACT: exact}[how](rows)
    print(json.dumps({**found, "seconds": time.perf_counter() - started}))


if __name__ == "__main__":
    child(sys.argv[1], int(sys.argv[2]))
