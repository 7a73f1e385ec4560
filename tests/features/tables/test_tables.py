"""Write, audit, publish: what readers see after good, bad, repeated, shrunken, empty and interrupted days."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from features.errors import GateClosed, GemlineError, QualityFailed
from features.home import Home
from features.tables import Tables, Verdict
from features.tables.quarantine import Refused, of_day
from features.worlds import load_world

pytestmark = pytest.mark.assets

DAY, NEXT, CLOSED = "2024-03-07", "2024-03-08", "2024-03-09"
BIG_ID = 4611686018427387905  # 2^62 + 1: damaged by any detour over float64


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    return Tables(spark, load_world("tiny"), Home(tmp_path))


def impressions(spark: SparkSession, ds: str, count: int, surface: str = "feed") -> DataFrame:
    number = F.col("id")
    return spark.range(count).select(
        F.lit(ds).alias("ds"),
        number.alias("impression_id"),
        (number % 5).alias("request_id"),
        F.when(number % 7 != 0, number + BIG_ID).alias("user_id"),
        number.alias("ad_id"),
        F.lit(surface).alias("surface"),
        F.to_timestamp(F.lit(f"{ds} 12:00:00")).alias("request_ts"),
        F.lit(0.5).alias("keep_rate"),
    )


def count(tables: Tables, ds: str) -> int:
    return tables.read("impressions", [ds]).count()


def test_published_rows_are_read_back_exactly(tables: Tables) -> None:
    sent = impressions(tables.spark, DAY, 20)
    tables.publish("impressions", sent, [DAY])
    found = tables.read("impressions", [DAY]).select(sent.columns)
    assert found.exceptAll(sent).count() == sent.exceptAll(found).count() == 0
    assert found.where("impression_id = 1").first()["user_id"] == BIG_ID + 1


def test_running_a_day_again_makes_no_commit_and_the_same_hash(tables: Tables) -> None:
    """B04 (a): also when rows come in another order."""
    first = tables.publish("impressions", impressions(tables.spark, DAY, 50), [DAY])
    version = tables.version("impressions")
    shuffled = impressions(tables.spark, DAY, 50).orderBy(F.rand(1))
    again = tables.publish("impressions", shuffled, [DAY])
    assert again[0].content_hash == first[0].content_hash
    assert not again[0].changed
    assert tables.version("impressions") == version


def test_a_closed_day_is_readable_and_empty(tables: Tables) -> None:
    results = tables.publish("impressions", impressions(tables.spark, CLOSED, 0), [CLOSED])
    assert results[0].verdict == Verdict.CLOSED
    assert count(tables, CLOSED) == 0
    assert tables.files("impressions", [CLOSED])[CLOSED].paths == ()


def test_a_closed_day_that_had_rows_is_emptied(tables: Tables) -> None:
    tables.publish("impressions", impressions(tables.spark, CLOSED, 2), [CLOSED])
    tables.publish("impressions", impressions(tables.spark, CLOSED, 0), [CLOSED])
    assert count(tables, CLOSED) == 0


def test_a_red_restatement_leaves_the_old_rows_readable(tables: Tables) -> None:
    tables.publish("impressions", impressions(tables.spark, DAY, 3), [DAY])
    with pytest.raises(QualityFailed, match="surface: moon"):
        tables.publish("impressions", impressions(tables.spark, DAY, 5, "moon"), [DAY])
    assert count(tables, DAY) == 3
    newest = tables.ledger.newest("impressions", DAY)
    assert newest is not None
    assert newest.verdict == Verdict.FAILED


def test_a_range_publishes_the_days_before_the_first_red_one(tables: Tables) -> None:
    frame = impressions(tables.spark, DAY, 3).union(impressions(tables.spark, NEXT, 3, "moon"))
    frame = frame.union(impressions(tables.spark, "2024-03-10", 3))
    with pytest.raises(QualityFailed, match=f"impressions of {NEXT} failed") as caught:
        tables.publish("impressions", frame, [DAY, NEXT, "2024-03-10"])
    assert [(result.ds, result.green) for result in caught.value.results] == [(DAY, True), (NEXT, False)]
    assert list(tables.readable_days("impressions")) == [DAY]


def test_rows_of_another_day_are_refused(tables: Tables) -> None:
    with pytest.raises(GemlineError, match="rows of"):
        tables.publish("impressions", impressions(tables.spark, NEXT, 3), [DAY])


def test_exact_row_counts_are_asserted(tables: Tables) -> None:
    with pytest.raises(QualityFailed, match=f"3 rows for {DAY}, 4 are due"):
        tables.publish("impressions", impressions(tables.spark, DAY, 3), [DAY], {DAY: 4})


def test_a_crash_between_commit_and_ledger_is_mended_by_the_next_writer(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B04 (b): what no ledger row declares is not seen; the next run finds the commit's own note."""
    tables.publish("impressions", impressions(tables.spark, DAY, 3), [DAY])
    monkeypatch.setattr(tables.ledger, "append", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        tables.publish("impressions", impressions(tables.spark, DAY, 9), [DAY])
    monkeypatch.undo()
    assert count(tables, DAY) == 3
    result = tables.publish("impressions", impressions(tables.spark, DAY, 9), [DAY])
    assert not result[0].changed
    assert count(tables, DAY) == 9


def test_a_task_that_fails_once_and_is_retried_loses_and_doubles_nothing(tables: Tables, tmp_path: Path) -> None:
    """B04 (c): Spark retries a partition whose function raises on its first attempt."""
    marker = tmp_path / "raised"
    spark = tables.spark.newSession()

    def once(batches):
        if not marker.exists():
            marker.write_text("x")
            raise RuntimeError("first attempt")
        yield from batches

    frame = impressions(spark, DAY, 1000)
    flaky = frame.mapInArrow(once, frame.schema)
    if "local[" in spark.sparkContext.master and "," not in spark.sparkContext.master:
        with pytest.raises(Exception, match="first attempt"):
            tables.publish("impressions", flaky, [DAY])
    tables.publish("impressions", flaky, [DAY])
    ids = [row["impression_id"] for row in tables.read("impressions", [DAY]).collect()]
    assert sorted(ids) == list(range(1000))
    again = tables.publish("impressions", frame, [DAY])
    assert not again[0].changed


def test_a_waiver_lets_exactly_that_content_pass(tables: Tables) -> None:
    bad = impressions(tables.spark, DAY, 2, "moon")
    with pytest.raises(QualityFailed):
        tables.publish("impressions", bad, [DAY])
    with pytest.raises(GemlineError, match="only with a reason"):
        tables.waive("impressions", DAY, " ")
    tables.waive("impressions", DAY, "a surface under test")
    assert tables.publish("impressions", bad, [DAY])[0].verdict == Verdict.WAIVED
    assert count(tables, DAY) == 2
    with pytest.raises(QualityFailed):
        tables.publish("impressions", impressions(tables.spark, DAY, 3, "moon"), [DAY])


def test_a_day_never_published_is_refused_with_what_to_do(tables: Tables) -> None:
    with pytest.raises(GateClosed, match=f"{DAY} was never published; materialize it first"):
        tables.read("impressions", [DAY])
    with pytest.raises(GemlineError, match="no table 'impresions'"):
        tables.read("impresions", [DAY])


def test_pinned_files_hold_the_days_rows(tables: Tables) -> None:
    import pyarrow.parquet as pq

    frame = impressions(tables.spark, DAY, 5).union(impressions(tables.spark, NEXT, 6))
    tables.publish("impressions", frame, [DAY, NEXT])
    tables.publish("impressions", impressions(tables.spark, NEXT, 7), [NEXT])
    pinned = tables.files("impressions", [DAY, NEXT])
    rows = {ds: sum(pq.read_metadata(path).num_rows for path in day.paths) for ds, day in pinned.items()}
    assert rows == {DAY: 5, NEXT: 7}
    assert pinned[NEXT].content_hash == tables.readable_days("impressions")[NEXT]


def test_a_mended_day_leaves_its_quarantine(tables: Tables) -> None:
    ddl = "ds STRING, `table` STRING, rule STRING, source STRING, row STRING"
    refused = tables.spark.createDataFrame([(DAY, "impressions", "no ad_id", "log.csv", "{}")], ddl)
    assert tables.quarantine(refused, [DAY]) == [Refused("impressions", DAY, "no ad_id", "log.csv", 1)]
    assert of_day(tables.spark, tables.home.tables, DAY) == tables.quarantine(refused, [DAY])
    assert tables.quarantine(refused.limit(0), [DAY]) == []
    path = str(tables.home.tables / "quarantine_impressions")
    assert tables.spark.read.format("delta").load(path).count() == 0


def test_hash_sees_a_value_that_moves_to_the_next_column(tables: Tables) -> None:
    from features.tables.content_hash import content_hashes

    ddl = "ds STRING, a BIGINT, b BIGINT"
    one = tables.spark.createDataFrame([(DAY, 1, None)], ddl)
    other = tables.spark.createDataFrame([(DAY, None, 1)], ddl)
    assert content_hashes(one, "ds") != content_hashes(other, "ds")
    doubled = content_hashes(one.union(one), "ds")[DAY]
    assert doubled[1] == 2
    assert doubled != content_hashes(one, "ds")[DAY]
