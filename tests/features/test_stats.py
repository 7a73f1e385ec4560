"""Statistics against counting by hand: windows, late arrivals, distinct counts, ranges, odd days."""

import random
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from features.days import day_end, day_of, day_range, shift
from features.schema_of import ad_statistics, user_statistics
from features.stats import ad_stats_of, user_stats_of
from features.worlds import World, load_world
from tests.features.frames import EVENTS, frame, utc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.assets
DAYS = ["2024-03-07", "2024-03-08", "2024-03-09", "2024-03-10", "2024-03-11"]


@pytest.fixture(scope="module")
def world() -> World:
    return load_world("tiny")


def event(user: int | None, ad: int | None, at: str, ds: str, **more: Any) -> dict[str, Any]:
    return {"user_id": user, "ad_id": ad, "event_ts": at, "event_type": "click", "ds": ds, **more}


def by_key(frame: Any, key: str) -> dict[tuple[int, str], dict[str, Any]]:
    return {(row[key], row["ds"]): row.asDict() for row in frame.collect()}


def test_windows_are_local_days_up_to_the_end_of_the_day(spark: "SparkSession", world: World) -> None:
    # 03:00 UTC is still the evening of the 7th in New York
    events = frame(
        spark,
        EVENTS,
        [
            event(1, 10, "2024-03-08 03:00:00", "2024-03-07", request_id=5, value=1.25),
            event(1, 11, "2024-03-08 12:00:00", "2024-03-08", request_id=5, value=0.1),
        ],
    )
    rows = by_key(user_stats_of(events, world, DAYS[:4]), "user_id")
    assert [rows[1, ds]["user_events_1d"] for ds in DAYS[:4]] == [1.0, 1.0, 0.0, 0.0]
    assert [rows[1, ds]["user_events_3d"] for ds in DAYS[:4]] == [1.0, 2.0, 2.0, 1.0]
    assert [rows[1, ds]["user_requests_3d"] for ds in DAYS[:4]] == [1.0, 1.0, 1.0, 1.0]
    assert [rows[1, ds]["user_value_3d"] for ds in DAYS[:4]] == [1.25, 1.35, 1.35, 0.1]
    assert rows[1, "2024-03-08"]["user_days_since_last"] == pytest.approx(17 / 24, abs=1e-6)


def test_a_row_lasts_as_long_as_the_longest_window_and_no_longer(spark: "SparkSession", world: World) -> None:
    events = frame(spark, EVENTS, [event(1, 10, "2024-03-07 12:00:00", "2024-03-07")])
    assert set(by_key(user_stats_of(events, world, DAYS), "user_id")) == {(1, ds) for ds in DAYS[:3]}


def test_stamps_are_the_local_midnight_and_the_lag(spark: "SparkSession", world: World) -> None:
    events = frame(spark, EVENTS, [event(1, 10, "2024-03-10 12:00:00", "2024-03-10")])
    row = (
        user_stats_of(events, world, ["2024-03-10"])
        .selectExpr("unix_micros(event_timestamp) AS e", "unix_micros(available_ts) AS a")
        .first()
    )
    # the 10th has 23 hours: it ends at 04:00 UTC, although it began at 05:00
    assert row["e"] == int(utc("2024-03-11 04:00:00").timestamp() * 1e6)
    assert row["a"] - row["e"] == 30 * 60 * 1_000_000


def test_a_day_of_25_hours_holds_its_hour_twice(spark: "SparkSession", world: World) -> None:
    # half past one, before and after clocks went back; the day's last instant; and the first of the next
    stamps = ("2024-11-03 05:30:00", "2024-11-03 06:30:00", "2024-11-04 04:59:59.999999", "2024-11-04 05:00:00")
    days = ["2024-11-03", "2024-11-04"]
    log = [event(1, 10, at, days[at >= "2024-11-04 05"], request_id=number) for number, at in enumerate(stamps)]
    rows = by_key(user_stats_of(frame(spark, EVENTS, log), world, days), "user_id")
    assert [rows[1, ds]["user_events_1d"] for ds in days] == [3.0, 1.0]
    assert rows[1, days[0]]["user_span_days"] == pytest.approx(23.5 / 24, abs=1e-6)
    end = rows[1, days[1]]["event_timestamp"] - rows[1, days[0]]["event_timestamp"]
    assert end == timedelta(days=1)


def test_an_event_counts_only_from_its_arrival_on(spark: "SparkSession", world: World) -> None:
    late = event(1, 10, "2024-03-07 12:00:00", "2024-03-09", request_id=1)
    on_time = event(1, 10, "2024-03-08 12:00:00", "2024-03-08", request_id=1)
    rows = by_key(user_stats_of(frame(spark, EVENTS, [late, on_time]), world, DAYS), "user_id")
    assert (1, "2024-03-07") not in rows
    assert [rows[1, ds]["user_events_3d"] for ds in DAYS[1:4]] == [1.0, 2.0, 1.0]
    assert [rows[1, ds]["user_requests_3d"] for ds in DAYS[1:4]] == [1.0, 1.0, 1.0]


def test_ads_count_distinct_users_and_their_share(spark: "SparkSession", world: World) -> None:
    noon = "2024-03-07 12:00:00"
    events = [event(1, 10, noon, DAYS[0]), event(1, 10, noon, DAYS[0]), event(2, 10, noon, DAYS[0])]
    events += [event(None, 11, noon, DAYS[0]), event(3, None, noon, DAYS[0])]
    rows = by_key(ad_stats_of(frame(spark, EVENTS, events), world, DAYS[:1]), "ad_id")
    assert rows[10, DAYS[0]]["ad_users_1d"] == 2.0
    assert rows[10, DAYS[0]]["ad_share_1d"] == 0.75
    assert rows[11, DAYS[0]]["ad_users_1d"] == 0.0


def test_columns_are_those_of_the_schema(spark: "SparkSession", world: World) -> None:
    events = frame(spark, EVENTS, [event(1, 10, "2024-03-07 12:00:00", DAYS[0])])
    head, tail = ["event_timestamp", "available_ts"], ["ds"]
    users = [feature.name for feature in user_statistics(world)]
    assert user_stats_of(events, world, DAYS[:1]).columns == ["user_id", *head, *users, *tail]
    ads = [feature.name for feature in ad_statistics(world)]
    assert ad_stats_of(events, world, DAYS[:1]).columns == ["ad_id", *head, *ads, *tail]


def random_events(seed: int, count: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        happened = utc("2024-03-05 00:00:00") + timedelta(seconds=draw.randrange(6 * 86400))
        arrived = shift(day_of(happened, "America/New_York"), draw.choice([0, 0, 0, 1, 2, 4]))
        more = {"request_id": draw.choice([None, 1, 2, 3, 4]), "value": draw.randrange(1000) / 100}
        rows.append(
            event(draw.choice([None, 1, 2, 3]), draw.choice([None, 7, 8]), f"{happened:%F %T}", arrived, **more)
        )
    return rows


def counted(rows: list[dict[str, Any]], key: str, ident: int, ds: str, window: int) -> list[dict[str, Any]]:
    """The rows of a window by the definition, one event at a time."""
    first = shift(ds, 1 - window)
    mine = [row for row in rows if row[key] == ident and row["ds"] <= ds]
    return [row for row in mine if first <= day_of(utc(row["event_ts"]), "America/New_York") <= ds]


@pytest.mark.parametrize("seed", [1, 2])
def test_random_logs_equal_a_count_by_definition(spark: "SparkSession", world: World, seed: int) -> None:
    log = random_events(seed, 150)
    events = frame(spark, EVENTS, log)
    days = day_range("2024-03-06", "2024-03-13")
    users = by_key(user_stats_of(events, world, days), "user_id")
    ads = by_key(ad_stats_of(events, world, days), "ad_id")
    checked = 0
    for ds in days:
        for window in world.statistics.windows:
            for user in (1, 2, 3):
                hits = counted(log, "user_id", user, ds, window)
                if (user, ds) not in users:
                    assert not hits
                    continue
                row = users[user, ds]
                assert row[f"user_events_{window}d"] == len(hits)
                assert row[f"user_requests_{window}d"] == len({h["request_id"] for h in hits} - {None})
                assert row[f"user_value_{window}d"] == round(sum(h["value"] for h in hits), 4)
                checked += len(hits)
            total = sum(len(counted(log, "ad_id", ad, ds, window)) for ad in (7, 8))
            for ad in (7, 8):
                hits = counted(log, "ad_id", ad, ds, window)
                if (ad, ds) in ads:
                    assert ads[ad, ds][f"ad_users_{window}d"] == len({h["user_id"] for h in hits} - {None})
                    assert ads[ad, ds][f"ad_share_{window}d"] == (pytest.approx(len(hits) / total) if total else None)
    assert checked > 100


def test_a_range_gives_what_its_days_give(spark: "SparkSession", world: World) -> None:
    events = frame(spark, EVENTS, random_events(3, 120))
    days = DAYS[:4]
    whole = sorted(map(str, user_stats_of(events, world, days).collect()))
    single = [row for ds in days for row in user_stats_of(events.where(f"ds <= '{ds}'"), world, [ds]).collect()]
    assert whole == sorted(map(str, single))


def test_row_order_changes_nothing(spark: "SparkSession", world: World) -> None:
    log = random_events(4, 200)
    first = user_stats_of(frame(spark, EVENTS, log), world, DAYS)
    second = user_stats_of(frame(spark, EVENTS, log[::-1]).repartition(3), world, DAYS)
    assert sorted(map(str, first.collect())) == sorted(map(str, second.collect()))


def test_days_between_asked_ones_are_left_out(spark: "SparkSession", world: World) -> None:
    events = frame(spark, EVENTS, [event(1, 10, "2024-03-07 12:00:00", DAYS[0])])
    rows = by_key(user_stats_of(events, world, [DAYS[0], DAYS[2]]), "user_id")
    assert set(rows) == {(1, DAYS[0]), (1, DAYS[2])}
    assert day_end(DAYS[2], world.timezone).date() == date(2024, 3, 10)
