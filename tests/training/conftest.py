"""A small synthetic input for the trainer: Parquet files with the columns of the tables, and plans over them.

Three walked days and the day after; two surfaces; a primary task that is known the same day and a delayed
task of the day before. Users have histories; some have none; some ids and numbers are missing.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from features.days import shift
from features.transform.hashing import string_id
from features.transform.schema import Categorical, Content, Dense, FeatureSchema, History, HistoryField, TaskSpec
from training.plan import DayFiles, Plan
from training.recipes import Recipe, gem_tiny

FIRST = "2024-05-01"
DAYS = tuple(shift(FIRST, offset) for offset in range(4))
DAY_US = 86_400_000_000
EPOCH_DAY = 19_844  # 2024-05-01 counted from 1970-01-01
ROWS = 150
PICTURE = pa.list_(pa.float32())


def schema() -> FeatureSchema:
    """Inputs and outputs of the synthetic data."""
    return FeatureSchema(
        categorical=(
            Categorical("user_id", "user", "request"),
            Categorical("ad_id", "ad"),
            Categorical("brand", "brand"),
            Categorical("tags", "brand", multi=True),
        ),
        dense=(Dense("ad_clicks_7d", "count"), Dense("ad_rate_7d", "ratio")),
        history=History((HistoryField("ad_id", "ad", "ad_id"), HistoryField("brand", "brand", "brand")), length=10),
        tables={"user": 64, "ad": 128, "brand": 32},
        surfaces=("feed", "story"),
        event_types=("click", "buy"),
        tasks=(TaskSpec("click", primary=True), TaskSpec("buy", parent="click", surfaces=("feed",))),
        content=(Content("picture", 3),),
    )


def write(path: Path, columns: Mapping[str, pa.Array]) -> DayFiles:
    """One file of one day."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return DayFiles(f"hash of {path.parent.parent.name} {path.parent.name}", (str(path),))


def examples_of(day: str, rows: int = ROWS, users: int = 30) -> dict[str, pa.Array]:
    """Examples of a day; every ninth has no user, every seventh no brand and no numbers, some no tag or picture."""
    offset = DAYS.index(day)
    rng = np.random.default_rng(offset)
    number = np.arange(rows)
    ad = rng.integers(0, 60, rows)
    clicks = rng.poisson(3, rows).astype(float)
    start = (EPOCH_DAY + offset) * DAY_US
    return {
        "impression_id": pa.array(offset * 10_000 + number),
        "request_id": pa.array(offset * 10_000 + number // 3),
        "user_id": pa.array(rng.integers(0, users, rows), mask=number % 9 == 0),
        "ad_id": pa.array(ad),
        "surface": pa.array(np.where(number % 2 == 0, "feed", "story")),
        "request_ts": pa.array(start + number * 1_000_000, pa.timestamp("us", tz="UTC")),
        "keep_rate": pa.array(np.where(number % 2 == 0, 0.5, 1.0)),
        "brand": pa.array(ad % 11, mask=number % 7 == 0),
        "ad_clicks_7d": pa.array(clicks, mask=number % 7 == 0),
        "ad_rate_7d": pa.array(clicks / 10, mask=number % 7 == 0),
        "tags": pa.array([[*range(item % 4)] if item % 5 else None for item in ad.tolist()], pa.list_(pa.int64())),
        "picture": pa.array([[item / 60, 0.5, -1.0] if item % 6 else None for item in ad.tolist()], PICTURE),
    }


def labels_of(label_day: str, rows: int = ROWS) -> dict[str, pa.Array]:
    """Pairs of a label day: clicks of the day itself, buys of yesterday's clicked feed impressions."""
    offset = DAYS.index(label_day)
    number = np.arange(rows)
    ad = np.random.default_rng(offset).integers(0, 60, rows)
    click = ((ad + number) % 4 == 0).astype(float)
    delayed = np.arange(0, rows, 8) if offset else np.zeros(0, dtype=np.int64)
    yesterday = shift(label_day, -1)
    return {
        "ds": pa.array([label_day] * rows + [yesterday] * len(delayed)),
        "impression_id": pa.array(np.concatenate([offset * 10_000 + number, (offset - 1) * 10_000 + delayed])),
        "task": pa.array(["click"] * rows + ["buy"] * len(delayed)),
        "label": pa.array(np.concatenate([click, (delayed % 16 == 0).astype(float)])),
        "weight": pa.array(
            np.concatenate([np.where(click > 0, 1.0, np.where(number % 2, 1.0, 2.0)), np.ones(len(delayed))])
        ),
    }


def history_of(day: str, users: int = 30) -> dict[str, pa.Array]:
    """Events of a day; user 3 never does anything, and a brand may be missing."""
    offset = DAYS.index(day)
    rng = np.random.default_rng(100 + offset)
    start = (EPOCH_DAY + offset) * DAY_US
    kept = [user for user in range(users) if user != 3]
    times = [sorted(rng.integers(0, DAY_US, rng.integers(1, 9)) + start) for _ in kept]
    ads = [rng.integers(0, 60, len(own)).tolist() for own in times]
    kinds = [[string_id("click")] * len(own) for own in times]
    brands = [[None if ad % 13 == 0 else ad % 11 for ad in own] for own in ads]
    integers = pa.list_(pa.int64())
    return {
        "user_id": pa.array(kept, pa.int64()),
        "event_us": pa.array([[int(at) for at in own] for own in times], integers),
        "event_type": pa.array(kinds, integers),
        "ad_id": pa.array(ads, integers),
        "brand": pa.array(brands, integers),
    }


def make_plan(root: Path, recipe: Recipe | None = None) -> Plan:
    """Write all files below `root` and plan a cold walk over three days, judged on the fourth."""
    tables: dict[str, Callable[[str], dict[str, pa.Array]]] = {
        "examples": examples_of,
        "labels": labels_of,
        "user_history": history_of,
    }
    files: dict[str, Any] = {
        table: {day: write(root / table / day / "part.parquet", make(day)) for day in DAYS}
        for table, make in tables.items()
    }
    return Plan(
        world="synthetic",
        partition=DAYS[-1],
        schema=schema(),
        recipe=recipe or replace(gem_tiny(), batch_size=32, score_batch_size=64),
        seed=7,
        walk=DAYS[:-1],
        output=str(root / "models" / DAYS[-1]),
        **files,
    )


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """A plan over fresh files of its own, which a test may break."""
    return make_plan(tmp_path)
