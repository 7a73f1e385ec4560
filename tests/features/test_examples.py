"""Examples hold what was known strictly before each request, whatever is planted in the future."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.sql import functions as F

from features.examples import HEAD, attributes_by_day, examples, expected_rows, statistics_days
from features.ids import id_of
from features.labels import Log, labels_of
from features.schema_of import ad_statistics, schema_of, user_statistics
from features.store.historical import historical_features
from tests.features.frames import OUTCOMES, USERS, frame
from tests.features.store_log import (
    COUNTRY,
    DAYS,
    HAPPENED,
    MORE,
    MOVED,
    SHOWN,
    built,
    copied,
    event,
    publish_events,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from features.tables import Tables

pytestmark = pytest.mark.assets


def made(tables: "Tables", days: list[str]) -> dict[int, dict[str, Any]]:
    rows = examples(tables.spark, tables.world, days, tables).collect()
    assert len({row["impression_id"] for row in rows}) == len(rows)
    return {row["impression_id"]: row.asDict() for row in rows}


@pytest.fixture(scope="module")
def tables(spark: "SparkSession") -> "Tables":
    return built(spark)


@pytest.fixture(scope="module")
def rows(tables: "Tables") -> dict[int, dict[str, Any]]:
    return made(tables, [DAYS[0], DAYS[1], DAYS[3]])


def test_there_is_one_row_for_each_impression_with_its_own_fields(rows: dict[int, dict[str, Any]]) -> None:
    assert set(rows) == {row["impression_id"] for row in SHOWN}
    for row in SHOWN:
        assert {name: rows[row["impression_id"]][name] for name in ("user_id", "ad_id", "surface", "ds")} == {
            name: row[name] for name in ("user_id", "ad_id", "surface", "ds")
        }


def test_the_expected_number_of_rows_is_that_of_the_impressions(tables: "Tables") -> None:
    expected = expected_rows(tables.spark, tables.world, DAYS, tables)
    assert expected == {ds: sum(row["ds"] == ds for row in SHOWN) for ds in DAYS}


def test_columns_are_the_contract_and_the_schema(tables: "Tables", rows: dict[int, dict[str, Any]]) -> None:
    schema = schema_of(tables.world)
    categorical = [feature.name for feature in schema.categorical if feature.name not in HEAD]
    assert list(rows[1]) == [*HEAD, *categorical, *(feature.name for feature in schema.dense), "image", "ds"]
    assert [*(name for name in schema.feature_names if name not in HEAD), "ds"] == list(rows[1])[len(HEAD) :]
    types = dict(examples(tables.spark, tables.world, DAYS[:1], tables).dtypes)
    assert {types[name] for name in categorical if name != "tags"} == {"bigint"}
    assert (types["tags"], types["image"]) == ("array<bigint>", "array<float>")
    assert {types[feature.name] for feature in schema.dense} == {"double"}


def test_statistics_are_those_of_the_day_before_once_available(rows: dict[int, dict[str, Any]]) -> None:
    assert rows[2]["user_events_1d"] == 2.0 and rows[2]["user_value_1d"] == 2.5
    assert rows[2]["ad_users_1d"] == 2.0
    assert rows[7]["user_events_3d"] == 3.0 and rows[7]["user_events_1d"] == 0.0


def test_an_early_request_sees_the_day_before_yesterday(rows: dict[int, dict[str, Any]]) -> None:
    # at 00:10 the statistics of the 9th are not available yet; those of the 8th know one event of that day
    assert rows[6]["user_events_1d"] == 1.0
    # on the world's second day there is no day before yesterday
    assert rows[1]["user_events_1d"] is None


def test_unknown_users_and_missing_users_stay_with_missing_features(rows: dict[int, dict[str, Any]]) -> None:
    for ident in (3, 4):
        assert rows[ident]["user_events_3d"] is None and rows[ident]["country"] is None
    assert rows[3]["user_id"] is None and rows[3]["ad_events_1d"] == 1.0
    assert rows[8]["user_events_1d"] is None


def test_two_impressions_of_one_instant_are_two_examples(rows: dict[int, dict[str, Any]]) -> None:
    """B11."""
    own = {"impression_id", "request_id"}
    assert {k: v for k, v in rows[2].items() if k not in own} == {k: v for k, v in rows[5].items() if k not in own}


def test_attributes_are_those_known_before_the_day(rows: dict[int, dict[str, Any]]) -> None:
    # the move of the 8th, 09:00, is used from the 9th on
    assert rows[2]["country"] == COUNTRY and rows[2]["age_band"] is None
    assert rows[7]["country"] == MOVED and rows[7]["age_band"] == 4
    assert rows[4]["topic"] is None and rows[4]["tags"] is None and rows[4]["image"] is None
    assert rows[2]["objective"] == MORE["objective"] and rows[2]["tags"] == MORE["tags"]
    assert rows[2]["image"] == [float(np.float32(number)) for number in MORE["image"]]
    assert rows[8]["country"] is None


def test_derived_features_are_local(spark: "SparkSession", rows: dict[int, dict[str, Any]]) -> None:
    # a Sunday; clocks went forward in the night, so 15:00 UTC is 11:00
    assert (rows[7]["hour"], rows[7]["weekday"]) == (11, 6)
    assert (rows[2]["hour"], rows[2]["weekday"]) == (10, 4)
    expected = spark.range(1).select(F.xxhash64(F.lit("story"))).first()[0]
    assert rows[3]["surface_id"] == expected
    assert rows[2]["context_device"] == 7
    # said by the impression, hashed as text; what is not said stays missing
    assert rows[2]["format"] == id_of("video") and rows[3]["format"] is None


def test_a_range_gives_what_its_days_give(tables: "Tables", rows: dict[int, dict[str, Any]]) -> None:
    assert made(tables, [DAYS[1]]) == {ident: row for ident, row in rows.items() if row["ds"] == DAYS[1]}


def test_no_value_planted_in_the_future_changes_an_example(
    spark: "SparkSession", rows: dict[int, dict[str, Any]]
) -> None:
    tables = copied(spark, "planted")
    wild = -987654321
    start = "TIMESTAMP'2024-03-08 05:00:00'"
    for table, key in (("user_stats", "user_id"), ("ad_stats", "ad_id")):
        own = tables.read(table, DAYS)
        values = [name for name in own.columns if name not in (key, "event_timestamp", "available_ts", "ds")]
        planted = own.withColumns({name: F.lit(abs(wild)).cast("double") for name in values})
        # later days; and a correction of the day before, available at the instant of the day's last request
        corrections = planted.where(f"ds = '{DAYS[0]}'").withColumn("ds", F.lit(DAYS[1]))
        corrections = corrections.withColumn("available_ts", F.expr("TIMESTAMP'2024-03-08 16:00:00'"))
        later = planted.where(f"ds > '{DAYS[1]}'")
        tables.publish(table, corrections.unionByName(later), DAYS[1:])
    # ids by hand: known during the day, or arrived before it but available only during it
    for table, key in (("users", "user_id"), ("ads", "ad_id")):
        own = tables.read(table, DAYS)
        names = [name for name in own.columns if name not in (key, "event_timestamp", "available_ts", "ds")]
        ids = spark.createDataFrame([(number,) for number in (1, 2, 9, 10, 11, 12)], f"{key} BIGINT")
        types = dict(own.dtypes)
        fill = {
            name: (F.array(F.lit(wild)) if types[name].startswith("array") else F.lit(wild)).cast(types[name])
            for name in names
        }
        planted = ids.withColumns(fill).withColumn("event_timestamp", F.expr(start))
        same_day = planted.withColumn("available_ts", F.expr(start)).withColumn("ds", F.lit(DAYS[1]))
        early = planted.withColumn("available_ts", F.expr(start + " + INTERVAL 5 MINUTES")).withColumn(
            "ds", F.lit(DAYS[0])
        )
        rest = own.where(f"ds = '{DAYS[0]}'").unionByName(early).unionByName(same_day)
        tables.publish(table, rest, DAYS[:2])
    found = made(tables, [DAYS[1]])
    assert found == {ident: row for ident, row in rows.items() if row["ds"] == DAYS[1]}
    # and the plants are live: the next day sees them
    assert made(tables, [DAYS[3]])[7]["user_events_3d"] == abs(wild)
    assert made(tables, [DAYS[3]])[7]["country"] == wild


def test_an_impressions_own_click_is_no_feature_of_it(spark: "SparkSession", rows: dict[int, dict[str, Any]]) -> None:
    """B08: whether it comes at the request, a microsecond or a second after."""
    tables = copied(spark, "own-click")
    stamps = ("2024-03-08 15:00:00", "2024-03-08 15:00:00.000001", "2024-03-08 15:00:01")
    publish_events(tables, HAPPENED + [event(1, 10, at, DAYS[1], request_id=2) for at in stamps])
    found = made(tables, [DAYS[1], DAYS[3]])
    assert {ident: found[ident] for ident in (1, 2, 3, 4, 5)} == {ident: rows[ident] for ident in (1, 2, 3, 4, 5)}
    assert found[7]["user_events_3d"] == rows[7]["user_events_3d"] + 3


def test_two_impressions_of_one_instant_keep_their_own_labels(
    tables: "Tables", rows: dict[int, dict[str, Any]]
) -> None:
    """B11: every impression has one example and one label of its task, known or unknown users alike."""
    clicks = [{"request_id": 2, "user_id": 1, "ad_id": 10, "event_type": "click", "event_ts": "2024-03-08 15:00:01"}]
    clicks.append(
        {"request_id": 4, "user_id": 9, "ad_id": 12, "event_type": "click", "event_ts": "2024-03-08 16:00:00"}
    )
    outcomes = frame(tables.spark, OUTCOMES, [{**click, "ds": DAYS[1]} for click in clicks])
    log = Log(tables.world, tables.read("impressions", [*DAYS[:2], DAYS[3]]), outcomes.unionByName(outcomes))
    found = labels_of(log, DAYS).where("task = 'click'").collect()
    own = {row["impression_id"]: row["label"] for row in found}
    assert len(found) == len(own) == len(rows)
    assert own == {ident: float(ident in (2, 4)) for ident in rows}


def test_a_correction_counts_from_its_availability_on(spark: "SparkSession", rows: dict[int, dict[str, Any]]) -> None:
    """B09: built again, an example of before is the same in every column; a microsecond later it has the new value."""
    for known, events in (("05:10:00", 1.0), ("05:09:59.999999", 9.0)):
        tables = copied(spark, f"corrected-{events}")
        # the row of the 8th, which request 6 sees at 05:10 on the 10th, corrected among the rows of the 9th
        row = tables.read("user_stats", DAYS[1:2]).where("user_id = 1").withColumn("user_events_1d", F.lit(9.0))
        row = row.withColumns({"ds": F.lit(DAYS[2]), "available_ts": F.expr(f"TIMESTAMP'2024-03-10 {known}'")})
        others = tables.read("user_stats", DAYS[2:3]).where("user_id <> 1")
        tables.publish("user_stats", others.unionByName(row), DAYS[2:3])
        assert made(tables, DAYS[3:])[6] == {**rows[6], "user_events_1d": events}


def test_statistics_are_what_feast_joins(tables: "Tables", rows: dict[int, dict[str, Any]]) -> None:
    days = [DAYS[0], DAYS[1], DAYS[3]]
    asked = tables.read("impressions", days).withColumnRenamed("request_ts", "event_timestamp")
    names = {"user_stats": user_statistics(tables.world), "ad_stats": ad_statistics(tables.world)}
    references = [f"{view}:{feature.name}" for view, declared in names.items() for feature in declared]
    found = historical_features(tables.spark, tables.world, tables.home, tables, asked, references).collect()
    assert len(found) == len(rows)
    for row in found:
        for name in (reference.split(":")[1] for reference in references):
            assert row[name] == rows[row["impression_id"]][name], (row["impression_id"], name)


def test_the_day_join_of_attributes_equals_feasts_join_at_the_days_start(tables: "Tables") -> None:
    spark, world = tables.spark, tables.world
    pairs = spark.createDataFrame([(user, ds) for user in (1, 2, 9) for ds in DAYS[1:]], "user_id BIGINT, ds STRING")
    attributes = world.users.attributes
    own = attributes_by_day(tables.read_through("users", DAYS[2]), pairs, "user_id", attributes, world.timezone)
    starts = pairs.withColumn("event_timestamp", F.to_utc_timestamp(F.col("ds").cast("timestamp"), world.timezone))
    references = [f"user_attributes:{name}" for name in attributes]
    feast = historical_features(spark, world, tables.home, tables, starts, references).drop("event_timestamp")
    expected = {
        tuple(row) for row in pairs.join(own, ["user_id", "ds"], "left").select("user_id", "ds", *attributes).collect()
    }
    assert {tuple(row) for row in feast.select("user_id", "ds", *attributes).collect()} == expected
    assert (1, DAYS[2], MOVED, 4) in expected


def test_the_newest_stamp_wins_and_then_the_newest_availability(spark: "SparkSession") -> None:
    noon = "2024-03-07 17:00:00"
    known = [
        {"user_id": 1, "country": 1, "event_timestamp": noon, "available_ts": noon, "ds": DAYS[0]},
        {
            "user_id": 1,
            "country": 2,
            "event_timestamp": noon,
            "available_ts": "2024-03-07 18:00:00",
            "ds": DAYS[0],
        },
        {
            "user_id": 1,
            "country": 3,
            "event_timestamp": "2024-03-07 16:00:00",
            "available_ts": "2024-03-08 18:00:00",
            "ds": DAYS[1],
        },
    ]
    pairs = spark.createDataFrame([(1, ds) for ds in DAYS], "user_id BIGINT, ds STRING")
    rows = attributes_by_day(frame(spark, USERS, known), pairs, "user_id", ("country",), "America/New_York").collect()
    assert {row["ds"]: row["country"] for row in rows} == {DAYS[1]: 2, DAYS[2]: 2, DAYS[3]: 2}


def test_statistics_of_the_ttl_are_asked_for_and_none_before_the_world(tables: "Tables") -> None:
    assert statistics_days(tables.world, [DAYS[3]]) == DAYS[1:3]
    assert statistics_days(tables.world, DAYS[:2]) == DAYS[:1]
    assert statistics_days(tables.world, DAYS[:1]) == []
