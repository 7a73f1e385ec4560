"""A vertical's plan over the synthetic input of the trainer's tests, with what a frozen GEM left for it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from features.days import shift
from tests.training.conftest import DAYS, examples_of, make_plan
from training.plan import DayFiles, GenerationRef, Plan, TransferPlan
from training.recipes import vertical_tiny

WIDTH = 3
OLD, NEW = "gen-000000000001", "gen-000000000002"
SEEN_UP_TO = shift(DAYS[0], -1)
FLOATS = pa.list_(pa.float32())


def outputs_of(day: str, names: tuple[str, ...] = (OLD, NEW)) -> pa.Table:
    """Rows of `fm_outputs`: logits and vectors differ by generation."""
    shown = examples_of(day)
    count, rng = len(shown["impression_id"]), np.random.default_rng(DAYS.index(day))
    parts = []
    for number, name in enumerate(names):
        logits = rng.normal(-1.0 - number, 0.5, (count, 2)).astype(np.float32)
        vectors = np.tanh(rng.normal(size=(count, WIDTH))).astype(np.float32) * (1 - 2 * number)
        parts.append(
            pa.table(
                {
                    "fm_generation": [name] * count,
                    "impression_id": shown["impression_id"],
                    "user_id": shown["user_id"],
                    "surface": shown["surface"],
                    "request_ts": shown["request_ts"],
                    "remembered": pa.array(np.arange(count) % 3 > 0),
                    "logits": pa.array(list(logits), FLOATS),
                    "vector": pa.array(list(vectors), FLOATS),
                }
            )
        )
    return pa.concat_tables(parts)


def vectors_of(day: str, names: tuple[str, ...] = (OLD, NEW)) -> pa.Table:
    """Rows of `solaris_train_vectors`: a third each exact, user and none."""
    shown = examples_of(day)
    count, rng = len(shown["impression_id"]), np.random.default_rng(50 + DAYS.index(day))
    sources = [("exact", "user", "none")[number % 3] for number in range(count)]
    run = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(hours=1)
    parts = []
    for number, name in enumerate(names):
        vectors = np.tanh(rng.normal(size=(count, WIDTH))).astype(np.float32) * (1 - 2 * number)
        held = [None if source == "none" else row for source, row in zip(sources, vectors, strict=True)]
        parts.append(
            pa.table(
                {
                    "fm_generation": [name] * count,
                    "impression_id": shown["impression_id"],
                    "run_ts": pa.array([run] * count, pa.timestamp("us", "UTC")),
                    "source": sources,
                    "vector": pa.array(held, FLOATS),
                }
            )
        )
    return pa.concat_tables(parts)


def files(root: Path, table: str, day: str, rows: pa.Table) -> DayFiles:
    """One file of one day."""
    path = root / table / day / "part.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)
    return DayFiles(f"hash of {table} {day}", (str(path),))


def reference(name: str = OLD) -> GenerationRef:
    return GenerationRef(name, SEEN_UP_TO, ("click", "buy"), WIDTH)


def make_vertical_plan(root: Path, **changes: Any) -> Plan:
    """Cold walk over three days on surface `feed`, judged on the fourth."""
    plan = make_plan(root)
    transfer = TransferPlan(
        generation=reference(),
        memory_length=4,
        fm_outputs={day: files(root, "fm_outputs", day, outputs_of(day)) for day in DAYS[:-1]},
        vectors={day: files(root, "solaris_train_vectors", day, vectors_of(day)) for day in DAYS},
    )
    part = plan.schema.part(("feed",), ("click", "buy"))
    output = str(root / "models" / "feed_click" / DAYS[-1])
    made = replace(plan, schema=part, recipe=vertical_tiny(), transfer=transfer, output=output)
    return replace(made, **changes)


@pytest.fixture
def vertical(tmp_path: Path) -> Plan:
    """A vertical's plan over files of its own."""
    return make_vertical_plan(tmp_path)
