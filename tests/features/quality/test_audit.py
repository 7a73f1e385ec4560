"""The audit of staged days on Spark and in memory: same faults, same warnings, whichever days stand beside."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from features.days import day_range, shift
from features.errors import QualityFailed
from features.home import Home
from features.quality import audit, past, row_audit
from features.quality.monitors import monitor_of
from features.quality.validation import site
from features.tables import DayResult, Tables
from features.tables.specs import spec_of
from features.worlds import load_world

pytestmark = pytest.mark.assets

WORLD = load_world("tiny").model_copy(update={"closed_days": (), "last_day": "2024-03-31"})
FIRST = "2024-03-07"
DAYS = day_range(FIRST, "2024-03-11")


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    return Tables(spark, WORLD, Home(tmp_path))


def impressions(spark: SparkSession, ds: str, count: int = 300, **columns: object) -> DataFrame:
    """Impressions spread over a day: two surfaces in turn, every seventh without a user."""
    number = F.col("id")
    start = F.to_timestamp(F.lit(f"{ds} 12:00:00"))
    made = {
        "ds": F.lit(ds),
        "impression_id": number + F.xxhash64(F.lit(ds)) % 1000 * 1000,
        "request_id": number % 5,
        "user_id": F.when(number % 7 != 0, number),
        "ad_id": number % 20,
        "surface": F.when(number % 2 == 0, "feed").otherwise("story"),
        "request_ts": F.timestamp_micros(F.unix_micros(start) + number * F.lit(15 * 3600 * 1_000_000 // count)),
        "keep_rate": F.lit(0.5),
    }
    given = {name: value if hasattr(value, "alias") else F.lit(value) for name, value in columns.items()}
    return spark.range(count).select(*((made | given)[name].alias(name) for name in (made | given)))


def union(frames: list[DataFrame]) -> DataFrame:
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return whole


def told(results: list[DayResult]) -> dict[str, list[str]]:
    return {result.ds: [text.split(":")[0] for text in result.warnings] for result in results}


def strange_log(spark: SparkSession) -> dict[str, DataFrame]:
    """Three usual days, a fourth of one surface that ends early and a fifth with few rows and no users."""
    usual = {ds: impressions(spark, ds) for ds in DAYS[:3]}
    early = F.timestamp_micros(F.unix_micros(F.to_timestamp(F.lit(f"{DAYS[3]} 12:00:00"))) + F.col("id"))
    return usual | {
        DAYS[3]: impressions(spark, DAYS[3], surface="feed", request_ts=early),
        DAYS[4]: impressions(spark, DAYS[4], 80, user_id=F.lit(None).cast("bigint")),
    }


def test_days_audited_together_have_the_outcome_of_days_audited_one_by_one(tables: Tables, tmp_path: Path) -> None:
    log = strange_log(tables.spark)
    together = tables.publish("impressions", union(list(log.values())), DAYS)
    alone = Tables(tables.spark, WORLD, Home(tmp_path / "alone"))
    single = [alone.publish("impressions", frame, [ds])[0] for ds, frame in log.items()]
    assert [(day.ds, day.content_hash, day.verdict, day.warnings) for day in together] == [
        (day.ds, day.content_hash, day.verdict, day.warnings) for day in single
    ]
    assert told(together) == {
        DAYS[0]: [],
        DAYS[1]: [],
        DAYS[2]: [],
        DAYS[3]: ["psi", "quiet_ratio"],
        DAYS[4]: ["rows_ratio", "null_share", "null_rise"],
    }
    assert "surface: " in together[3].warnings[0] and "at most 0.25" in together[3].warnings[0]


def test_large_days_are_audited_on_spark_with_the_same_outcome(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = strange_log(tables.spark)
    in_memory = tables.publish("impressions", union(list(log.values())), DAYS)
    for module in (audit, row_audit, past):
        monkeypatch.setattr(module, "IN_MEMORY_ROWS", 1)
    large = Tables(tables.spark, WORLD, Home(tmp_path / "large"))
    on_spark = large.publish("impressions", union(list(log.values())), DAYS)
    assert [day.warnings for day in on_spark] == [day.warnings for day in in_memory]
    wrong = impressions(tables.spark, shift(DAYS[4], 1), 30, surface="moon")
    for one in (tables, large):
        with pytest.raises(QualityFailed, match=r"in_set: column surface: moon, .*ds=2024-03-12 impression_id="):
            one.publish("impressions", wrong, [shift(DAYS[4], 1)])


def test_a_fault_in_a_long_range_is_found_on_its_day(tables: Tables) -> None:
    days = [impressions(tables.spark, ds, 20, surface="moon" if ds == DAYS[3] else "feed") for ds in DAYS]
    with pytest.raises(QualityFailed, match=f"impressions of {DAYS[3]} failed") as caught:
        tables.publish("impressions", union(days), DAYS)
    assert [result.ds for result in caught.value.results] == DAYS[:4]
    assert all((site(tables.home) / page).is_file() for result in caught.value.results for page in result.pages)


def test_a_stamp_outside_of_its_day_is_red(tables: Tables) -> None:
    """The zone's day of 2024-03-10 has 23 hours: 04:00 UTC of the next day is outside."""
    late = F.to_timestamp(F.lit("2024-03-11 04:00:00"))
    with pytest.raises(QualityFailed, match="seconds_after: request_ts: 1e-06 seconds by which a stamp lies after"):
        tables.publish("impressions", impressions(tables.spark, "2024-03-10", 3, request_ts=late), ["2024-03-10"])


LABELS = "ds STRING, impression_id BIGINT, task STRING, label DOUBLE, weight DOUBLE, label_ds STRING"


def test_labels_that_point_to_no_impression_are_red(tables: Tables) -> None:
    shown = impressions(tables.spark, FIRST, 10)
    tables.publish("impressions", shown, [FIRST])
    known = [row["impression_id"] for row in shown.collect()]
    rows = [(FIRST, number, "click", 0.0, 1.0, FIRST) for number in (*known, 17)]
    with pytest.raises(QualityFailed, match="orphans: impressions of its rows: 1 rows without a partner there"):
        tables.publish("labels", tables.spark.createDataFrame(rows, LABELS), [FIRST])
    fine = tables.publish("labels", tables.spark.createDataFrame(rows[:-1], LABELS), [FIRST])
    assert fine[0].warnings == ()


def test_ads_without_attributes_and_outcomes_without_an_impression_are_told(tables: Tables) -> None:
    spark, matched = tables.spark, {}
    shown = impressions(spark, FIRST, 100)
    ads = spark.sql("select 99L ad_id, timestamp '2024-03-07' event_timestamp, timestamp '2024-03-07' available_ts")
    tables.publish("ads", ads.withColumn("ds", F.lit(FIRST)), [FIRST])
    matched = tables.publish("impressions", shown, [FIRST])[0].warnings
    assert any("ads with attributes: 0 times" in text for text in matched)
    happened = spark.range(50).select(
        (F.col("id") + 1000).alias("request_id"),
        F.lit(1).cast("bigint").alias("user_id"),
        F.lit(1).cast("bigint").alias("ad_id"),
        F.lit("click").alias("event_type"),
        F.to_timestamp(F.lit(f"{FIRST} 13:00:00")).alias("event_ts"),
        F.lit(FIRST).alias("ds"),
    )
    tables.publish("outcomes", happened, [FIRST])
    known = [row["impression_id"] for row in shown.collect()]
    rows = [(FIRST, number, "click", 0.0, 1.0, FIRST) for number in known]
    found = tables.publish("labels", spark.createDataFrame(rows, LABELS), [FIRST])[0].warnings
    assert any("outcomes of click: 0 times" in text for text in found)


def test_a_profile_that_was_lost_is_made_again_from_the_published_rows(tables: Tables) -> None:
    import shutil

    tables.publish("impressions", union([impressions(tables.spark, ds) for ds in DAYS]), DAYS)
    spec, monitor = spec_of("impressions"), monitor_of(spec_of("impressions"), WORLD)
    kept = past.Past(tables).profiles(spec, monitor, DAYS)
    shutil.rmtree(tables.home.root / "quality")
    assert past.Past(tables).profiles(spec, monitor, DAYS) == kept
    assert list(kept) == DAYS
