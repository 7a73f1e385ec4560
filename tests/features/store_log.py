"""A hand-made log on `tiny`, published for real, on which examples and the feature store are tested.

Days 7, 8 and 10 of March 2024 have impressions, the 9th is closed. New York is at UTC-5 until the 10th.
"""

import functools
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from features.history import user_history_of, user_recent_of
from features.home import Home
from features.stats import ad_stats_of, user_stats_of
from features.store.repo import apply
from features.tables import Tables
from features.worlds import load_world
from tests.features.frames import ADS, EVENTS, IMPRESSIONS, USERS, frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = ["2024-03-07", "2024-03-08", "2024-03-09", "2024-03-10"]
COUNTRY, MOVED = 2**61 + 1, 2**61 + 3
"""Hashes that floating point cannot hold."""


def shown(ident: int, user: int | None, ad: int, at: str, ds: str, surface: str = "feed") -> dict[str, Any]:
    more = {"surface": surface, "keep_rate": 0.5, "context_device": 7, "format": None if ad == 11 else "video"}
    return {
        "impression_id": ident,
        "request_id": ident,
        "user_id": user,
        "ad_id": ad,
        "request_ts": at,
        "ds": ds,
        **more,
    }


def event(user: int, ad: int, at: str, ds: str, **more: Any) -> dict[str, Any]:
    return {"user_id": user, "ad_id": ad, "event_ts": at, "event_type": "click", "ds": ds, **more}


SHOWN = [
    shown(8, 1, 10, "2024-03-07 15:00:00", DAYS[0]),
    # ten minutes after midnight: the statistics of the 7th are available after thirty
    shown(1, 1, 10, "2024-03-08 05:10:00", DAYS[1]),
    shown(2, 1, 10, "2024-03-08 15:00:00", DAYS[1]),
    shown(3, None, 11, "2024-03-08 15:00:00", DAYS[1], "story"),
    shown(4, 9, 12, "2024-03-08 16:00:00", DAYS[1]),
    # the same user, ad and instant as 2
    shown(5, 1, 10, "2024-03-08 15:00:00", DAYS[1]),
    shown(6, 1, 10, "2024-03-10 05:10:00", DAYS[3]),
    shown(7, 1, 10, "2024-03-10 15:00:00", DAYS[3]),
]
HAPPENED = [
    event(1, 10, "2024-03-07 15:30:00", DAYS[0], brand=5, value=2.5),
    event(1, 11, "2024-03-07 16:00:00", DAYS[0]),
    event(2, 10, "2024-03-07 17:00:00", DAYS[0], brand=5),
    event(1, 10, "2024-03-08 18:00:00", DAYS[1], brand=5),
    event(2, 11, "2024-03-10 18:00:00", DAYS[3]),
]
PEOPLE = [
    {"user_id": 1, "country": COUNTRY, "event_timestamp": "2024-03-07 05:00:00", "ds": DAYS[0]},
    {"user_id": 2, "country": None, "age_band": 3, "event_timestamp": "2024-03-07 05:00:00", "ds": DAYS[0]},
    {"user_id": 1, "country": MOVED, "age_band": 4, "event_timestamp": "2024-03-08 14:00:00", "ds": DAYS[1]},
]
MORE = {"objective": 2**61 + 5, "tags": [2**61 + 9, 2**61 + 7], "image": [0.1, -2.0, 0.0, 1e-3]}
THINGS = [
    {"ad_id": 10, "brand": 5, "topic": 1, "event_timestamp": "2024-03-07 05:00:00", "ds": DAYS[0], **MORE},
    {"ad_id": 11, "brand": None, "topic": 2, "event_timestamp": "2024-03-07 05:00:00", "ds": DAYS[0]},
    {"ad_id": 12, "brand": 6, "topic": 2, "event_timestamp": "2024-03-08 06:00:00", "ds": DAYS[1]},
]


def known_at_once(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"available_ts": row["event_timestamp"], **row} for row in rows]


@functools.cache
def scratch() -> Path:
    """A folder for the homes of this process's tests, removed when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="store-log-")
    scratch.kept = folder  # type: ignore[attr-defined]
    return Path(folder.name)


@functools.cache
def built(spark: "SparkSession") -> Tables:
    """The log, its statistics and histories, published once a process; read only, see `copied`."""
    world = load_world("tiny")
    tables = Tables(spark, world, Home(scratch() / "built" / "tiny"))
    tables.publish("impressions", frame(spark, IMPRESSIONS, SHOWN), DAYS)
    tables.publish("users", frame(spark, USERS, known_at_once(PEOPLE)), DAYS)
    tables.publish("ads", frame(spark, ADS, known_at_once(THINGS)), DAYS)
    publish_events(tables, HAPPENED)
    apply(world, tables.home)
    return tables


def publish_events(tables: Tables, happened: list[dict[str, Any]]) -> None:
    """Publish events and all that is computed of them."""
    world, spark = tables.world, tables.spark
    events = frame(spark, EVENTS, happened)
    tables.publish("events", events, DAYS)
    tables.publish("user_stats", user_stats_of(events, world, DAYS), DAYS)
    tables.publish("ad_stats", ad_stats_of(events, world, DAYS), DAYS)
    history = user_history_of(events, world)
    tables.publish("user_history", history, DAYS)
    tables.publish("user_recent", user_recent_of(history, world, DAYS), DAYS)


def copied(spark: "SparkSession", name: str) -> Tables:
    """The built log in a home of its own, to be changed."""
    source = built(spark).home.root
    target = scratch() / name / "tiny"
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("registry", "online", "*.lock"))
    tables = Tables(spark, load_world("tiny"), Home(target))
    apply(tables.world, tables.home)
    return tables
