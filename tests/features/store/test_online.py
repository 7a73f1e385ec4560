"""The online store gives what training saw: newest values, exact ids, ttl, the next day's features."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
import redis

from features.errors import GateClosed, GemlineError
from features.examples import examples
from features.schema_of import ad_statistics, user_statistics
from features.store.definitions import view_specs
from features.store.historical import historical_features
from features.store.lookup import online_features
from features.store.online import materialize, write_rows
from features.store.repo import ONLINE_SETTING, feature_store
from tests.features.frames import frame, utc
from tests.features.store_log import COUNTRY, DAYS, MORE, MOVED, built, copied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from features.tables import Tables

pytestmark = pytest.mark.assets
NOON = utc("2024-03-10 16:00:00")


@pytest.fixture(scope="module")
def filled(spark: "SparkSession") -> "Tables":
    """All days up to the 9th, online."""
    tables = copied(spark, "online")
    counts = materialize(tables.world, tables.home, tables, DAYS[:3])
    assert counts == {
        "user_stats": 2,
        "ad_stats": 2,
        "user_attributes": 2,
        "ad_attributes": 3,
        "user_recent": 2,
    }
    return tables


def push(tables: "Tables", user: int, stamp: datetime, value: float, known: datetime | None = None) -> None:
    spec = view_specs(tables.world)["user_stats"]
    columns = {"user_id": [user], "event_timestamp": [stamp], "available_ts": [known or stamp]}
    columns |= {name: [value] for name in spec.features}
    write_rows(feature_store(tables.world, tables.home), spec, pa.table(columns))


def read(tables: "Tables", user: int, now: datetime) -> tuple[Any, dict[str, int]]:
    found = online_features(tables.world, tables.home, [user], [], now)
    value = found.users.loc[user, "user_events_1d"]
    return (None if pd.isna(value) else value), found.missing["user_stats"]


def test_online_features_are_those_of_the_next_days_examples(filled: "Tables") -> None:
    world = filled.world
    rows = {row["impression_id"]: row for row in examples(filled.spark, world, [DAYS[3]], filled).collect()}
    online = online_features(world, filled.home, [1], [10], rows[7]["request_ts"].astimezone())
    compared = 0
    for row, names in (
        (online.users.loc[1], [f.name for f in user_statistics(world)] + list(world.users.attributes)),
        (online.ads.loc[10], [f.name for f in ad_statistics(world)] + list(world.ads.attributes)),
    ):
        for name in names:
            known = row[name] if isinstance(row[name], list) or not pd.isna(row[name]) else None
            assert known == rows[7][name], name
            compared += 1
    assert compared == len(user_statistics(world)) + len(ad_statistics(world)) + 7
    assert len(online.ads.loc[10, "tags"]) == 2 and len(online.ads.loc[10, "image"]) == 4


@pytest.mark.services
def test_redis_answers_as_sqlite_does(
    filled: "Tables", spark: "SparkSession", redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same values, ids exact, an unknown id absent."""

    def ask(tables: "Tables") -> pd.DataFrame:
        return online_features(tables.world, tables.home, [1, 2, 99], [], NOON).users

    expected = ask(filled)
    redis.Redis.from_url(redis_url).flushdb()
    monkeypatch.setenv(ONLINE_SETTING, redis_url)
    tables = copied(spark, "on-redis")
    materialize(tables.world, tables.home, tables, DAYS[:3])
    found = ask(tables)
    pd.testing.assert_frame_equal(found, expected)
    assert found.loc[1, "country"] == MOVED and found.loc[99].isna().all()
    assert redis.Redis.from_url(redis_url).dbsize() > 0


def test_ids_are_exact_beside_missing_ones(filled: "Tables") -> None:
    found = online_features(filled.world, filled.home, [2, 1, 99], [], NOON)
    assert found.users["country"].tolist()[1] == MOVED
    assert found.users["country"].isna().tolist() == [True, False, True]
    assert found.users["country"].dtype == "Int64"
    assert found.missing["user_attributes"] == {"absent": 1}


def test_the_short_history_comes_as_lists_with_their_holes(filled: "Tables") -> None:
    found = online_features(filled.world, filled.home, [1], [], NOON)
    assert found.users.loc[1, "recent_ad_id"] == [10, 11, 10]
    assert found.users.loc[1, "recent_brand"] == [5, None, 5]
    assert found.users.loc[1, "recent_event_us"] == sorted(found.users.loc[1, "recent_event_us"])


def test_plain_feast_answers_for_the_whole_service(filled: "Tables") -> None:
    store = feature_store(filled.world, filled.home)
    service = store.get_feature_service("gem_v1_online")
    answer = store.get_online_features(features=service, entity_rows=[{"user_id": 1, "ad_id": 10}]).to_dict()
    assert (answer["country"], answer["topic"], answer["recent_ad_id"]) == ([MOVED], [1], [[10, 11, 10]])
    assert answer["tags"] == [MORE["tags"]] and answer["image"] == [pytest.approx(MORE["image"])]


def test_age_is_judged_online_as_in_the_training_join(filled: "Tables") -> None:
    spark, world = filled.spark, filled.world
    stamp = utc("2024-03-10 04:00:00") + timedelta(hours=1)
    push(filled, 50, stamp, 5.0)
    ddl = "user_id BIGINT, event_timestamp TIMESTAMP, available_ts TIMESTAMP, "
    ddl += ", ".join(f"{feature.name} DOUBLE" for feature in user_statistics(world)) + ", ds STRING"
    values = {feature.name: 5.0 for feature in user_statistics(world)}
    row = {
        "user_id": 50,
        "event_timestamp": f"{stamp:%F %T}",
        "available_ts": f"{stamp + world.statistics.lag:%F %T}",
    }
    rows = filled.read("user_stats", [DAYS[3]]).unionByName(frame(spark, ddl, [{**row, **values, "ds": DAYS[3]}]))
    filled.publish("user_stats", rows, [DAYS[3]])
    second = timedelta(seconds=1)
    ages = [
        world.statistics.lag,
        world.statistics.lag + second,
        world.stats_ttl - second,
        world.stats_ttl,
        world.stats_ttl + second,
    ]
    asked = [{"row": n, "user_id": 50, "event_timestamp": f"{stamp + age:%F %T}"} for n, age in enumerate(ages)]
    joined = historical_features(
        spark,
        world,
        filled.home,
        filled,
        frame(spark, "row BIGINT, user_id BIGINT, event_timestamp TIMESTAMP", asked),
        ["user_stats:user_events_1d"],
    )
    offline = [row["user_events_1d"] for row in joined.orderBy("row").collect()]
    online = [read(filled, 50, stamp + age) for age in ages]
    assert [value for value, _ in online] == offline == [None, 5.0, 5.0, 5.0, None]
    assert [faults for _, faults in online] == [{"early": 1}, {}, {}, {}, {"stale": 1}]


def test_an_older_value_never_replaces_a_newer_one(filled: "Tables") -> None:
    day = utc("2024-03-10 04:00:00")
    push(filled, 60, day, 10.0)
    push(filled, 60, day - timedelta(days=2), 4.0)
    assert read(filled, 60, NOON)[0] == 10.0
    push(filled, 60, day + timedelta(hours=6), 11.0)
    push(filled, 60, day, 10.0)
    assert read(filled, 60, NOON)[0] == 11.0
    # a correction of the same stamp does, a correction that it superseded does not
    push(filled, 60, day + timedelta(hours=6), 12.0, known=day + timedelta(hours=7))
    push(filled, 60, day + timedelta(hours=6), 11.0, known=day + timedelta(hours=6))
    assert read(filled, 60, NOON)[0] == 12.0


def test_days_in_any_order_end_in_the_same_state(spark: "SparkSession", filled: "Tables") -> None:
    other = copied(spark, "online-shuffled")
    for days in (DAYS[2:3], DAYS[:1], DAYS[1:3], DAYS[1:2]):
        materialize(other.world, other.home, other, days)
    ours, theirs = (online_features(t.world, t.home, [1, 2], [10, 11, 12], NOON) for t in (filled, other))
    pd.testing.assert_frame_equal(ours.users, theirs.users)
    pd.testing.assert_frame_equal(ours.ads, theirs.ads)


def test_a_backfill_of_the_first_day_alone_shows_that_day(spark: "SparkSession") -> None:
    tables = copied(spark, "online-first")
    materialize(tables.world, tables.home, tables, DAYS[:1])
    found = online_features(tables.world, tables.home, [1], [12], utc("2024-03-08 06:00:00"))
    assert found.users.loc[1, "country"] == COUNTRY
    assert found.ads["topic"].isna().all()


def test_a_day_that_is_not_readable_is_refused(filled: "Tables") -> None:
    with pytest.raises(GateClosed, match="2024-03-11"):
        materialize(filled.world, filled.home, filled, ["2024-03-11"])


def test_now_needs_a_zone(spark: "SparkSession") -> None:
    tables = built(spark)
    with pytest.raises(GemlineError, match="time zone"):
        online_features(tables.world, tables.home, [1], [10], NOON.replace(tzinfo=None))
