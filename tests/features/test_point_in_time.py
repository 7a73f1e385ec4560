"""No value that comes after a request is an input of it: a future value is planted into every column of the log.

All plants are restated in one pass through the product's own tables, statistics, feature store and histories, on a
calendar with a day of 25 hours; hypothesis draws the values.
"""

from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from features.days import micros
from features.examples import examples
from features.history import user_history_of
from features.home import Home
from features.schema_of import schema_of
from features.stats import ad_stats_of, user_stats_of
from features.store.repo import apply
from features.tables import Tables
from features.transform.histories import slice_histories
from features.worlds import World, load_world
from tests.features.frames import frame
from tests.features.planted_log import DAYS, DDL, INERT, REQUESTS, SILENT, Plant, plants, restated, rows_of
from training.chain import day_files
from training.parquet import read_histories

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.assets
PLANTS = plants()
Seen = dict[int, tuple[dict[str, Any], tuple[Any, ...]]]
"""Impression -> the columns of its example, and the slice of its user's history."""


def autumn() -> World:
    """`tiny` on days of which one has 25 hours."""
    return load_world("tiny").model_copy(
        update={"first_day": DAYS[0], "last_day": DAYS[-1], "closed_days": (), "demo": None}
    )


def publish(tables: Tables, planted: dict[Plant, dict[str, Any]]) -> None:
    """Publish the log with these plants, and all that is made of it."""
    world, spark = tables.world, tables.spark
    frames = {table: frame(spark, DDL[table], rows) for table, rows in rows_of(PLANTS, planted).items()}
    for table, rows in frames.items():
        tables.publish(table, rows, DAYS)
    tables.publish("user_stats", user_stats_of(frames["events"], world, DAYS), DAYS)
    tables.publish("ad_stats", ad_stats_of(frames["events"], world, DAYS), DAYS)
    tables.publish("user_history", user_history_of(frames["events"], world), DAYS)


def seen(tables: Tables) -> Seen:
    """What each impression's model input is made of."""
    world = tables.world
    rows = [row.asDict() for row in examples(tables.spark, world, DAYS, tables).collect()]
    fields = [field.name for field in world.history.fields]
    store = read_histories(day_files(tables, "user_history", DAYS), fields)
    users = np.array([row["user_id"] for row in rows])
    day = np.array([date.fromisoformat(row["ds"]).toordinal() for row in rows])
    at = np.array([instant_of((row, ())) for row in rows])
    got = slice_histories(schema_of(world), store, users, day, at)
    ends = np.cumsum(got.lengths)
    found: Seen = {}
    for row, place in zip(rows, got.row, strict=True):
        part = slice(ends[place] - got.lengths[place], ends[place])
        columns = [got.age_us, got.type, *got.fields.values()]
        found[row["impression_id"]] = (row, tuple(tuple(column[part].tolist()) for column in columns))
    assert len(found) == len(rows)
    return found


def instant_of(input_of: tuple[dict[str, Any], tuple[Any, ...]]) -> int:
    """Microseconds of the request; Spark hands out instants on the driver's own clock."""
    return micros(input_of[0]["request_ts"].astimezone())


@pytest.fixture(scope="module")
def tables(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Tables:
    tables = Tables(spark, autumn(), Home(tmp_path_factory.mktemp("planted") / "tiny"))
    publish(tables, {})
    apply(tables.world, tables.home)
    return tables


@pytest.fixture(scope="module")
def before(tables: Tables) -> Seen:
    return seen(tables)


def unshared(input_of: tuple[dict[str, Any], tuple[Any, ...]]) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Without an ad's share of all events, which is the one feature that universes have in common."""
    return {name: value for name, value in input_of[0].items() if "share" not in name}, input_of[1]


@settings(
    max_examples=2, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(st.integers(1, 2**62))
def test_no_value_planted_at_or_after_a_request_changes_its_example(tables: Tables, before: Seen, wild: int) -> None:
    """B08, B09: at the request, just after, long after, and late corrections of the past, in every column."""
    publish(tables, {plant: restated(plant, 1 + wild * (1 + plant.number) % 2**62) for plant in PLANTS})
    after = seen(tables)
    for plant in PLANTS:
        live = False
        for ident in range(10 * plant.number, 10 * plant.number + REQUESTS):
            same = unshared(after[ident]) == unshared(before[ident])
            earlier = instant_of(before[ident]) <= micros(plant.known)
            assert same or not earlier, (plant, before[ident], after[ident])
            live |= not same
        # what is an input at all is seen by whoever asks later: the plants could have been found
        assert live == (plant.table not in INERT and (plant.table, plant.column) not in SILENT), plant
    first = min(micros(plant.known) for plant in PLANTS)
    # what is planted into an impression is its own
    own = {10 * plant.number + 9 for plant in PLANTS}
    untouched = [ident for ident, row in before.items() if instant_of(row) <= first and ident not in own]
    assert all(after[ident] == before[ident] for ident in untouched)
    assert any(before[ident][0]["ad_share_1d"] for ident in untouched)
