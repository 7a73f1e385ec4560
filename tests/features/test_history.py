"""Behaviour sequences: order, ties, days of arrival, and the short history as of a day's end."""

from typing import TYPE_CHECKING, Any

import pytest

from features.days import micros
from features.history import user_history_of, user_recent_of
from features.schema_of import array_columns
from features.worlds import World, load_world
from tests.features.frames import EVENTS, frame, utc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.assets
DAYS = ["2024-03-07", "2024-03-08", "2024-03-09"]


@pytest.fixture(scope="module")
def world() -> World:
    return load_world("tiny")


def event(user: int | None, ad: int, at: str, ds: str, **more: Any) -> dict[str, Any]:
    return {"user_id": user, "ad_id": ad, "event_ts": at, "event_type": "click", "ds": ds, **more}


def stamp(text: str) -> int:
    return micros(utc(text))


def ads_by_day(frame: "DataFrame") -> dict[tuple[int, str], list[int]]:
    return {(row["user_id"], row["ds"]): list(row["ad_id"]) for row in frame.collect()}


def test_events_stand_in_order_under_the_day_they_arrived(spark: "SparkSession", world: World) -> None:
    log = [
        event(1, 12, "2024-03-07 15:00:00", DAYS[0], brand=4),
        event(1, 11, "2024-03-07 14:00:00", DAYS[0]),
        event(1, 10, "2024-03-07 13:00:00", DAYS[1]),
        event(None, 9, "2024-03-07 13:00:00", DAYS[0]),
    ]
    history = user_history_of(frame(spark, EVENTS, log), world)
    assert history.columns == ["user_id", *array_columns(world), "ds"]
    rows = {row["ds"]: row for row in history.collect()}
    assert list(rows[DAYS[0]]["ad_id"]) == [11, 12]
    assert list(rows[DAYS[0]]["event_us"]) == [stamp("2024-03-07 14:00:00"), stamp("2024-03-07 15:00:00")]
    assert list(rows[DAYS[0]]["brand"]) == [None, 4]
    assert list(rows[DAYS[1]]["ad_id"]) == [10]


def test_equal_stamps_are_ordered_by_the_other_columns(spark: "SparkSession", world: World) -> None:
    log = [event(1, ad, "2024-03-07 15:00:00", DAYS[0], brand=ad % 3) for ad in (5, 3, 9, 1, 7)]
    forward = user_history_of(frame(spark, EVENTS, log), world).collect()
    backward = user_history_of(frame(spark, EVENTS, log[::-1]).repartition(3), world).collect()
    assert forward == backward
    assert list(forward[0]["ad_id"]) == [1, 3, 5, 7, 9]


def test_the_short_history_holds_the_newest_as_of_the_end_of_the_day(spark: "SparkSession", world: World) -> None:
    log = [event(1, ad, f"2024-03-07 {6 + ad:02}:00:00", DAYS[0]) for ad in range(12)]
    # a late one, older than all that are kept
    log += [event(1, 77, "2024-03-07 06:00:00", DAYS[1]), event(1, 50, "2024-03-08 12:00:00", DAYS[1])]
    log += [event(2, 60, "2024-03-07 12:00:00", DAYS[0])]
    history = user_history_of(frame(spark, EVENTS, log), world)
    recent = user_recent_of(history, world, DAYS)
    rows = ads_by_day(recent)
    assert rows[1, DAYS[0]] == list(range(2, 12))
    assert rows[1, DAYS[1]] == [*range(3, 12), 50]
    # only days with news have a row
    assert set(rows) == {(1, DAYS[0]), (1, DAYS[1]), (2, DAYS[0])}
    first = (
        recent.where("ds = '2024-03-07'")
        .selectExpr("unix_micros(event_timestamp) e", "unix_micros(available_ts) a")
        .first()
    )
    assert first["e"] == first["a"] == stamp("2024-03-08 05:00:00")


def test_a_range_gives_what_its_days_give(spark: "SparkSession", world: World) -> None:
    log = [event(1 + ad % 3, ad, f"2024-03-0{7 + ad % 3} {6 + ad // 3:02}:30:00", DAYS[ad % 3]) for ad in range(36)]
    history = user_history_of(frame(spark, EVENTS, log), world)
    whole = user_recent_of(history, world, DAYS).collect()
    single = [row for ds in DAYS for row in user_recent_of(history.where(f"ds <= '{ds}'"), world, [ds]).collect()]
    assert sorted(whole) == sorted(single)


def test_a_stamp_after_the_days_end_waits_and_hides_nothing(spark: "SparkSession", world: World) -> None:
    log = [event(1, ad, f"2024-03-07 {8 + ad:02}:00:00", DAYS[0]) for ad in range(10)]
    # a skewed clock: ten events of tomorrow arrived today
    log += [event(1, 100 + ad, f"2024-03-08 {8 + ad:02}:00:00", DAYS[0]) for ad in range(10)]
    log += [event(1, 200, "2024-03-09 01:00:00", DAYS[1])]
    history = user_history_of(frame(spark, EVENTS, log), world)
    rows = ads_by_day(user_recent_of(history, world, DAYS))
    assert rows[1, DAYS[0]] == list(range(10))
    assert rows[1, DAYS[1]] == [*range(101, 110), 200]
