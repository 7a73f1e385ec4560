"""Point-in-time retrieval: strict bounds, corrections, no lost or doubled rows, zones, a clean session."""

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from features.errors import GemlineError
from features.home import Home
from features.schema_of import user_statistics
from features.store.historical import historical_features
from features.store.quiet import QUOTED_REGEX
from features.store.repo import apply
from features.tables import Tables
from features.worlds import load_world
from tests.features.frames import frame, utc
from tests.features.store_log import DAYS, built, scratch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.assets
VALUE = "user_events_1d"


@pytest.fixture(scope="module")
def tables(spark: "SparkSession") -> Tables:
    """Statistics by hand: (user, stamp, available, value)."""
    world = load_world("tiny")
    tables = Tables(spark, world, Home(scratch() / "corrections" / "tiny"))
    names = [feature.name for feature in user_statistics(world)]
    ddl = "user_id BIGINT, event_timestamp TIMESTAMP, available_ts TIMESTAMP, "
    ddl += ", ".join(f"{name} DOUBLE" for name in names) + ", ds STRING"
    stamped = [
        (1, "2024-03-07 11:00:00", "2024-03-07 11:01:00", 1.0, DAYS[0]),
        (1, "2024-03-07 11:00:00", "2024-03-07 11:03:00", 3.0, DAYS[1]),
        (1, "2024-03-07 11:00:00", "2024-03-07 11:02:00", 2.0, DAYS[2]),
        # a correction that became known a day later
        (1, "2024-03-07 11:00:00", "2024-03-08 09:00:00", 9.0, DAYS[3]),
        (3, "2024-03-05 11:00:00", "2024-03-05 11:00:00", 5.0, DAYS[0]),
        (4, "2024-03-07 11:00:00", "2024-03-07 11:00:00", 7.0, DAYS[0]),
    ]
    fill = {name: 0.0 for name in names}
    rows = [
        {**fill, "user_id": user, "event_timestamp": stamp, "available_ts": known, VALUE: value, "ds": ds}
        for user, stamp, known, value, ds in stamped
    ]
    tables.publish("user_stats", frame(spark, ddl, rows), DAYS)
    apply(world, tables.home)
    return tables


def entities(spark: "SparkSession", rows: list[tuple[int, int | None, str]]) -> "DataFrame":
    made = [{"row": row, "user_id": user, "event_timestamp": at} for row, user, at in rows]
    return frame(spark, "row BIGINT, user_id BIGINT, event_timestamp TIMESTAMP", made)


def joined(tables: Tables, asked: Any) -> list[tuple[int, Any]]:
    found = historical_features(tables.spark, tables.world, tables.home, tables, asked, [f"user_stats:{VALUE}"])
    return sorted((row["row"], row[VALUE]) for row in found.collect())


def test_no_row_is_merged_multiplied_or_dropped(spark: "SparkSession", tables: Tables) -> None:
    """B11: of three copies of a value the one that became known last is joined; cold and stale users stay."""
    noon = "2024-03-07 12:00:00"
    # shared key and time; another user; before the first value; expired; unknown; missing
    rows = [
        (1, 1, noon),
        (2, 1, noon),
        (3, 2, noon),
        (4, 1, "2024-03-07 10:00:00"),
        (5, 3, noon),
        (6, 9, noon),
        (7, None, noon),
    ]
    expected = [(1, 3.0), (2, 3.0), (3, None), (4, None), (5, None), (6, None), (7, None)]
    assert joined(tables, entities(spark, rows)) == expected
    assert joined(tables, entities(spark, rows[::-1]).repartition(3)) == expected


def test_a_correction_is_used_from_its_availability_on(spark: "SparkSession", tables: Tables) -> None:
    """B09."""
    rows = [
        (1, 1, "2024-03-08 09:00:00"),
        (2, 1, "2024-03-08 09:00:00.000001"),
        (3, 1, "2024-03-07 11:01:30"),
    ]
    assert joined(tables, entities(spark, rows)) == [(1, 3.0), (2, 9.0), (3, 1.0)]


def test_a_value_stamped_at_the_request_is_not_seen(spark: "SparkSession", tables: Tables) -> None:
    """B08."""
    rows = [(1, 4, "2024-03-07 11:00:00"), (2, 4, "2024-03-07 11:00:00.000001")]
    assert joined(tables, entities(spark, rows)) == [(1, None), (2, 7.0)]


def test_a_value_lives_as_long_as_its_ttl(spark: "SparkSession", tables: Tables) -> None:
    last = utc("2024-03-07 11:00:00") + tables.world.stats_ttl
    rows = [(1, 4, f"{last:%F %T}"), (2, 4, f"{last + timedelta(seconds=1):%F %T}")]
    assert joined(tables, entities(spark, rows)) == [(1, 7.0), (2, None)]


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Tokyo"])
def machine_zone(request: pytest.FixtureRequest) -> Iterator[str]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield request.param
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


def test_zones_of_stamps_and_of_the_machine_do_not_matter(tables: Tables, machine_zone: str) -> None:
    naive = pd.DataFrame({"row": [1], "user_id": [4], "event_timestamp": [pd.Timestamp("2024-03-07 11:30")]})
    assert joined(tables, naive) == [(1, 7.0)]
    for text in ("2024-03-07T06:30-05:00", "2024-03-07T17:00+05:30"):
        aware = naive.assign(event_timestamp=pd.to_datetime([text]))
        assert joined(tables, aware) == [(1, 7.0)]


def test_stamps_of_several_zones_may_stand_beside_each_other(tables: Tables, machine_zone: str) -> None:
    """B10: all mean the same instant, and every row comes back."""
    texts = ["2024-03-07 11:30", "2024-03-07T06:30-05:00", "2024-03-07T17:00+05:30"]
    stamps = pd.Series([pd.Timestamp(text) for text in texts], dtype=object)
    asked = pd.DataFrame({"row": [1, 2, 3], "user_id": [4, 4, 4], "event_timestamp": stamps})
    assert joined(tables, asked) == [(1, 7.0), (2, 7.0), (3, 7.0)]


def test_a_row_without_an_instant_is_refused_by_number(tables: Tables) -> None:
    asked = pd.DataFrame({"row": [1, 2], "user_id": [4, 4], "event_timestamp": pd.to_datetime(["2024-03-07", None])})
    with pytest.raises(GemlineError, match="row 1 has no 'event_timestamp'"):
        joined(tables, asked)


def test_ids_are_exact_beside_a_missing_one(spark: "SparkSession", tables: Tables) -> None:
    """B02, the entity frame: neighbours above 2^53 beside a null come back as they were, in rows of their own."""
    ids = [2**62 + 1, None, 2**62 + 2, 4]
    asked = pd.DataFrame({"row": range(4), "user_id": pd.array(ids, dtype="Int64")})
    asked["event_timestamp"] = pd.Timestamp("2024-03-07 12:00", tz="UTC")
    found = historical_features(spark, tables.world, tables.home, tables, asked, [f"user_stats:{VALUE}"])
    rows = {row["row"]: (row["user_id"], row[VALUE]) for row in found.collect()}
    assert rows == {0: (ids[0], None), 1: (None, None), 2: (ids[2], None), 3: (4, 7.0)}
    with pytest.raises(GemlineError, match="column 'user_id' is float64, which cannot hold 64-bit ids exactly"):
        joined(tables, asked.assign(user_id=[float(item or 0) for item in ids]))
    with pytest.raises(GemlineError, match="column 'user_id' is double"):
        joined(tables, entities(spark, [(1, 4, "2024-03-07 12:00:00")]).selectExpr(
            "row", "cast(user_id as double) user_id", "event_timestamp"
        ))  # fmt: skip


def test_an_unknown_service_is_refused_with_those_there_are(spark: "SparkSession", tables: Tables) -> None:
    asked = entities(spark, [(1, 4, "2024-03-07 12:00:00")])
    with pytest.raises(GemlineError, match="no feature service 'gem_v9'; known: gem_v1, gem_v1_online"):
        historical_features(spark, tables.world, tables.home, tables, asked, "gem_v9")


def test_dates_are_refused_by_name(tables: Tables) -> None:
    """B10."""
    dates = pd.DataFrame({"row": [1], "user_id": [4], "event_timestamp": [pd.Timestamp("2024-03-07").date()]})
    with pytest.raises(GemlineError, match="column 'event_timestamp' must hold timestamps"):
        joined(tables, dates)


def test_the_published_version_is_read(spark: "SparkSession", tables: Tables) -> None:
    path = str(tables.path("user_stats"))
    before = joined(tables, entities(spark, [(1, 4, "2024-03-07 12:00:00")]))
    # someone writes past the ledger
    spark.read.format("delta").load(path).where("user_id <> 4").write.format("delta").mode("overwrite").save(path)
    try:
        assert joined(tables, entities(spark, [(1, 4, "2024-03-07 12:00:00")])) == before == [(1, 7.0)]
    finally:
        spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {tables.version('user_stats')}")


def test_the_session_is_left_as_it_was(spark: "SparkSession", tables: Tables) -> None:
    before = {table.name for table in spark.catalog.listTables()}
    assert joined(tables, entities(spark, [(1, 4, "2024-03-07 12:00:00")]))
    assert {table.name for table in spark.catalog.listTables()} == before
    assert spark.conf.get(QUOTED_REGEX) == "false"
    assert not list((tables.home.root / "cache").glob("pinned-*"))


def test_no_rows_give_no_rows_with_all_columns(spark: "SparkSession", tables: Tables) -> None:
    found = historical_features(spark, tables.world, tables.home, tables, entities(spark, []))
    assert found.count() == 0
    assert {VALUE, "country", "topic"} <= set(found.columns)


def test_a_service_gives_all_its_features(spark: "SparkSession") -> None:
    tables = built(spark)
    ddl = "user_id BIGINT, ad_id BIGINT, event_timestamp TIMESTAMP"
    asked = frame(spark, ddl, [{"user_id": 1, "ad_id": 10, "event_timestamp": "2024-03-10 15:00:00"}])
    row = historical_features(spark, tables.world, tables.home, tables, asked, "gem_v1_online").first()
    assert row["recent_ad_id"] == [10, 11, 10]
    assert (row["user_events_3d"], row["ad_events_3d"], row["age_band"], row["topic"]) == (3.0, 3.0, 4, 1)
