"""The written policy of docs/quality.md: a day with no rows, fewer rows, a changed type, a new or a lost column."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from features.errors import GateClosed, GemlineError, QualityFailed
from features.home import Home
from features.tables import Tables, Verdict
from features.worlds import load_world
from tests.features.tables.test_tables import DAY, NEXT, count, impressions

pytestmark = pytest.mark.assets


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    """Two published days of three and four rows."""
    made = Tables(spark, load_world("tiny"), Home(tmp_path))
    made.publish("impressions", impressions(spark, DAY, 3).union(impressions(spark, NEXT, 4)), [DAY, NEXT])
    return made


def test_no_rows_are_red_and_the_old_ones_stay(tables: Tables) -> None:
    """B03, B06 (a): the day is red by name; neighbours and the day itself stay as they were."""
    with pytest.raises(QualityFailed, match=f"0 rows for {DAY}; list it under closed_days"):
        tables.publish("impressions", impressions(tables.spark, DAY, 0), [DAY])
    assert (count(tables, DAY), count(tables, NEXT)) == (3, 4)


def test_a_first_day_without_rows_is_red_and_stays_closed(tables: Tables) -> None:
    """B03: never an error about columns or partitions, also when the table does not exist yet."""
    for table in ("impressions", "user_stats"):
        with pytest.raises(QualityFailed, match="0 rows for 2024-03-11"):
            tables.publish(table, impressions(tables.spark, "2024-03-11", 0), ["2024-03-11"])
        with pytest.raises(GateClosed, match="audit failed on expect_table_row_count"):
            tables.read(table, ["2024-03-11"])


def test_a_filter_that_matches_nothing_is_red(tables: Tables) -> None:
    """B06 (b): a day in another spelling finds no rows, which is never a pass."""
    wrong = "20240307"
    filtered = impressions(tables.spark, DAY, 3).where(F.col("ds") == wrong)
    with pytest.raises(QualityFailed, match=f"0 rows for {wrong}"):
        tables.publish("impressions", filtered, [wrong])
    with pytest.raises(GateClosed, match=f"impressions of {wrong} is closed"):
        tables.read("impressions", [wrong])


def test_fewer_rows_are_published_and_told(tables: Tables) -> None:
    """B03: three rows become one."""
    result = tables.publish("impressions", impressions(tables.spark, DAY, 1), [DAY])[0]
    assert result.verdict == Verdict.PASSED
    assert result.restated
    assert any("rows_lost: rows: 2 rows fewer than this day had until now" in text for text in result.warnings)
    assert (count(tables, DAY), count(tables, NEXT)) == (1, 4)
    gate = tables.ledger.published("impressions")[DAY]
    assert gate.warnings.splitlines() == list(result.warnings)
    again = tables.publish("impressions", impressions(tables.spark, DAY, 1), [DAY])[0]
    assert (again.changed, again.warnings) == (False, result.warnings)


def test_a_new_column_is_added_and_told_once(tables: Tables) -> None:
    wider = impressions(tables.spark, DAY, 3).union(impressions(tables.spark, NEXT, 4)).withColumn("tint", F.lit("red"))
    results = tables.publish("impressions", wider, [DAY, NEXT])
    assert ["new_column: tint" in " ".join(result.warnings) for result in results] == [True, False]
    third = impressions(tables.spark, "2024-03-10", 5).withColumn("tint", F.lit("blue"))
    assert not any("column" in text for text in tables.publish("impressions", third, ["2024-03-10"])[0].warnings)
    assert tables.read("impressions", ["2024-03-10"]).where("tint = 'blue'").count() == 5


def test_a_lost_column_is_null_from_then_on_and_told(tables: Tables) -> None:
    narrower = impressions(tables.spark, DAY, 3).drop("request_id")
    result = tables.publish("impressions", narrower, [DAY])[0]
    assert any(text.startswith("lost_column: request_id") for text in result.warnings)
    assert tables.read("impressions", [DAY]).where("request_id is null").count() == 3
    assert tables.read("impressions", [NEXT]).where("request_id is null").count() == 0


def test_a_changed_type_is_refused_with_what_to_run_and_passes_over_all_days(tables: Tables) -> None:
    retyped = impressions(tables.spark, DAY, 3).withColumn("request_id", F.col("request_id").cast("string"))
    with pytest.raises(GemlineError, match=rf"request_id was bigint and is now string.*of {DAY}..{NEXT} in one range"):
        tables.publish("impressions", retyped, [DAY])
    assert count(tables, DAY) == 3
    other = impressions(tables.spark, NEXT, 4).withColumn("request_id", F.col("request_id").cast("string"))
    results = tables.publish("impressions", retyped.union(other), [DAY, NEXT])
    assert all(result.changed for result in results)
    assert dict(tables.read("impressions", [DAY, NEXT]).dtypes)["request_id"] == "string"
    assert (count(tables, DAY), count(tables, NEXT)) == (3, 4)


def test_a_changed_type_over_all_days_changes_nothing_when_one_of_them_is_red(tables: Tables) -> None:
    whole = impressions(tables.spark, DAY, 3).union(impressions(tables.spark, NEXT, 4, "moon"))
    with pytest.raises(QualityFailed, match=f"impressions of {NEXT} failed .*surface: moon") as caught:
        tables.publish("impressions", whole.withColumn("request_id", F.col("request_id").cast("string")), [DAY, NEXT])
    assert [result.ds for result in caught.value.results] == [NEXT]
    assert dict(tables.read("impressions", [DAY, NEXT]).dtypes)["request_id"] == "bigint"


def test_refused_raw_rows_are_told_as_a_share(tables: Tables) -> None:
    """Half of the negatives of a surface are kept, so ten rows stand for twenty."""
    none = tables.publish("impressions", impressions(tables.spark, DAY, 9), [DAY], refused={DAY: 0})[0].warnings
    assert not any("refused" in text for text in none)
    found = tables.publish("impressions", impressions(tables.spark, DAY, 10), [DAY], refused={DAY: 10})[0].warnings
    assert any(
        "refused_share: rows: 0.3333 of the day's raw rows were refused (at most 0.01)" in text for text in found
    )
