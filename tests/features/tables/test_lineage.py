"""Stale is what was made from other content than stands now, whatever the order and the time of making it."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from features.history import user_history_of, user_recent_of
from features.home import Home
from features.tables import Tables
from features.tables.lineage import WINDOWS, stale_days, windows_of
from features.tables.specs import SPECS
from features.worlds import load_world
from tests.features.frames import EVENTS, frame, utc

pytestmark = pytest.mark.assets

WORLD = load_world("tiny")
DAYS = ["2024-03-07", "2024-03-08", "2024-03-09", "2024-03-10"]


def events(spark: SparkSession, ads: dict[str, int], value: float = 1.0) -> DataFrame:
    """A click a day, on the day's ad."""
    rows = [
        {"user_id": 1, "ad_id": ad, "event_type": "click", "event_ts": f"{ds} 12:00:00", "value": value, "ds": ds}
        for ds, ad in ads.items()
    ]
    return frame(spark, EVENTS, rows)


def built(tables: Tables, days: list[str]) -> None:
    history = user_history_of(tables.read("events", days), WORLD)
    tables.publish("user_history", history, days)
    tables.publish("user_recent", user_recent_of(tables.read("user_history", DAYS), WORLD, days), days)


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    made = Tables(spark, WORLD, Home(tmp_path))
    made.publish("events", events(spark, dict.fromkeys(DAYS, 5)), DAYS)
    built(made, DAYS)
    return made


def told(tables: Tables) -> dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]]:
    return {(day.table, day.ds): (day.because, day.follows) for day in stale_days(tables)}


def test_a_restated_day_makes_what_reads_it_stale_and_running_it_again_fresh(tables: Tables) -> None:
    assert told(tables) == {}
    tables.publish("events", events(tables.spark, {DAYS[1]: 9}), [DAYS[1]])
    follows = (("events",), ()), ((), ("user_history",))
    assert told(tables) == {
        ("user_history", DAYS[1]): follows[0],
        **{("user_recent", ds): follows[1] for ds in DAYS[1:]},
    }
    tables.publish("user_history", user_history_of(tables.read("events", [DAYS[1]]), WORLD), [DAYS[1]])
    assert told(tables) == {("user_recent", ds): (("user_history",), ()) for ds in DAYS[1:]}
    built(tables, DAYS)
    assert told(tables) == {}


def test_content_restated_back_leaves_nothing_stale(tables: Tables) -> None:
    tables.publish("events", events(tables.spark, {DAYS[1]: 9}), [DAYS[1]])
    tables.publish("events", events(tables.spark, {DAYS[1]: 5}), [DAYS[1]])
    assert told(tables) == {}


def test_content_that_stays_as_it_was_is_fresh_without_a_commit(tables: Tables) -> None:
    """The restated column is none of the history's, so running it again confirms it in the ledger alone."""
    tables.publish("events", events(tables.spark, {DAYS[1]: 5}, value=2.5), [DAYS[1]])
    assert ("user_history", DAYS[1]) in told(tables)
    version = tables.version("user_history")
    built(tables, DAYS)
    assert told(tables) == {}
    assert tables.version("user_history") == version


def test_days_published_before_inputs_were_noted_are_taken_as_fresh(tables: Tables) -> None:
    for gate in tables.ledger.rows():
        object.__setattr__(gate, "inputs", "")
    assert told(tables) == {}


def test_inputs_taken_before_a_long_computation_are_the_ones_noted(tables: Tables) -> None:
    """What is restated while a day is computed leaves it stale."""
    inputs = tables.inputs("user_history", [DAYS[1]])
    made = user_history_of(tables.read("events", [DAYS[1]]), WORLD)
    tables.publish("events", events(tables.spark, {DAYS[1]: 9}), [DAYS[1]])
    tables.publish("user_history", made, [DAYS[1]], inputs=inputs)
    assert ("user_history", DAYS[1]) in told(tables)


def test_windows_end_before_or_with_the_day_and_begin_with_the_world() -> None:
    for table in WINDOWS:
        for ds in DAYS:
            for name, (first, last) in windows_of(table, WORLD, ds).items():
                assert name in SPECS
                assert WORLD.first_day <= first <= last <= ds
    assert "user_stats" not in windows_of("examples", WORLD, WORLD.first_day)


def test_an_older_ledger_is_read_and_carried_on(spark: SparkSession, tmp_path: Path) -> None:
    """Columns that a ledger lacks have their defaults; the next row adds them."""
    from features.tables.ledger import Gate, Ledger

    old = Gate("events", DAYS[0], "abc", "passed", 1, "", "", published=True, delta_version=0)
    ddl = (
        "entry BIGINT, `table` STRING, ds STRING, content_hash STRING, verdict STRING, `rows` BIGINT, rule STRING, "
        "sample STRING, published BOOLEAN, delta_version BIGINT, written_at TIMESTAMP"
    )
    values = (0, *(getattr(old, name) for name in list(vars(old))[:9]), utc(f"{DAYS[0]} 12:00:00"))
    spark.createDataFrame([values], ddl).write.format("delta").save(str(tmp_path / "gates"))
    assert Ledger(spark, tmp_path / "gates").rows() == [old]
    new = Gate("events", DAYS[1], "def", "passed", 1, "", "", published=True, delta_version=1, warnings="psi: far")
    Ledger(spark, tmp_path / "gates").append([new])
    assert Ledger(spark, tmp_path / "gates").rows() == [old, new]
