"""Reading the online store without Spark: exact values, the rules of age, one open store for many threads.

On SQLite and on a real Redis: the same answers.
"""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from features.errors import GemlineError
from features.home import Home
from features.store.definitions import view_specs
from features.store.lookup import OnlineStore, online_features
from features.store.online import write_rows
from features.store.repo import StoreStale, apply, feature_store
from features.store.versions import RECORD
from features.worlds import load_world

WORLD = load_world("tiny")
STAMP = datetime(2024, 3, 10, 4, tzinfo=UTC)
LAG = WORLD.statistics.lag
BIG = 2**61 + 1
ARROW = {
    "double": pa.float64(),
    "bigint": pa.int64(),
    "array<bigint>": pa.list_(pa.int64()),
    "array<float>": pa.list_(pa.float32()),
}


def put(home: Home, view: str, key: int, stamp: datetime = STAMP, **values: Any) -> None:
    spec = view_specs(WORLD)[view]
    columns = {name: pa.array([values.get(name)], ARROW[kind]) for name, kind in spec.features.items()}
    table = pa.table({spec.key: [key], "event_timestamp": [stamp], "available_ts": [stamp], **columns})
    write_rows(feature_store(WORLD, home), spec, table)


@pytest.fixture(scope="module")
def home(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("lookup") / "tiny")
    apply(WORLD, home)
    put(home, "user_stats", 1, user_events_1d=2.5)
    put(home, "user_attributes", 1, country=BIG)
    put(home, "user_recent", 1, event_us=[5, 6], event_type=[BIG, -BIG], ad_id=[10, 2**63 - 1], brand=[None, 3])
    put(home, "ad_attributes", 10, brand=2**53 + 1, tags=[BIG, -(2**63), 2**63 - 1], image=[0.5, -1.0, 0.0, 3.0])
    put(home, "ad_attributes", -(2**63), topic=4)
    return home


@pytest.fixture(scope="module")
def store(home: Home) -> OnlineStore:
    return OnlineStore(WORLD, home)


def test_values_come_back_exactly_and_in_order(store: OnlineStore) -> None:
    found = store.features([1], [-(2**63), 99, 10], STAMP + timedelta(hours=1))
    assert found.users.index.tolist() == [1] and found.ads.index.tolist() == [-(2**63), 99, 10]
    assert found.users.loc[1, "user_events_1d"] == 2.5
    assert pd.isna(found.users.loc[1, "user_value_3d"])
    assert (found.users.loc[1, "country"], found.users["country"].dtype) == (BIG, "Int64")
    assert found.ads["brand"].tolist() == [pd.NA, pd.NA, 2**53 + 1]
    assert found.ads["topic"].tolist() == [4, pd.NA, pd.NA]
    assert found.missing["ad_attributes"] == {"absent": 1}
    assert found.missing["ad_stats"] == {"absent": 3}


def test_lists_keep_their_holes(store: OnlineStore) -> None:
    users = store.features([1, 2], [], STAMP + timedelta(hours=1)).users
    assert users["recent_brand"].tolist() == [[None, 3], None]
    assert users["recent_ad_id"].tolist() == [[10, 2**63 - 1], None]
    ads = store.features([], [10, 99], STAMP + timedelta(hours=1)).ads
    assert ads["tags"].tolist() == [[BIG, -(2**63), 2**63 - 1], None]
    assert ads["image"].tolist() == [[0.5, -1.0, 0.0, 3.0], None]
    assert users["recent_event_type"].tolist() == [[BIG, -BIG], None]


@pytest.mark.parametrize(
    ("age", "fault"),
    [
        (LAG, "early"),
        (LAG + timedelta(microseconds=1), ""),
        (WORLD.stats_ttl, ""),
        (WORLD.stats_ttl + timedelta(microseconds=1), ""),
        (WORLD.stats_ttl + timedelta(microseconds=2), "stale"),
    ],
)
def test_age_is_judged_as_in_the_training_join(store: OnlineStore, age: timedelta, fault: str) -> None:
    found = store.features([1], [], STAMP + age)
    assert found.missing["user_stats"] == ({fault: 1} if fault else {})
    assert pd.isna(found.users.loc[1, "user_events_1d"]) == bool(fault)


def test_attributes_hold_until_newer_ones(store: OnlineStore) -> None:
    assert store.features([1], [], STAMP).missing["user_attributes"] == {"early": 1}
    assert store.features([1], [], STAMP + timedelta(days=4000)).users.loc[1, "country"] == BIG


def test_nothing_asked_is_nothing_found(store: OnlineStore) -> None:
    found = store.features([], [], STAMP)
    assert (len(found.users), len(found.ads)) == (0, 0)
    assert "country" in found.users.columns and not any(found.missing.values())


def test_what_is_written_later_is_seen(home: Home, store: OnlineStore) -> None:
    now = STAMP + timedelta(days=1, hours=1)
    assert pd.isna(store.features([7], [], now).users.loc[7, "user_events_1d"])
    put(home, "user_stats", 7, STAMP + timedelta(days=1), user_events_1d=1.0)
    assert store.features([7], [], now).users.loc[7, "user_events_1d"] == 1.0
    put(home, "user_stats", 7, STAMP, user_events_1d=9.0)
    assert store.features([7], [], now).users.loc[7, "user_events_1d"] == 1.0


def test_many_threads_read_while_one_writes(home: Home, store: OnlineStore) -> None:
    """A row is read whole: all its features are of one write."""
    now, names = STAMP + timedelta(hours=1), view_specs(WORLD)["ad_stats"].features
    put(home, "ad_stats", 50, **dict.fromkeys(names, 0.0))
    barrier = threading.Barrier(5)

    def read(_: int) -> set[tuple[float, ...]]:
        barrier.wait()
        return {tuple(store.features([], [50], now).ads.loc[50, list(names)]) for _ in range(40)}

    with ThreadPoolExecutor(5) as pool:
        reading = [pool.submit(read, number) for number in range(4)]
        barrier.wait()
        for round_ in range(1, 15):
            put(home, "ad_stats", 50, **dict.fromkeys(names, float(round_)))
        seen = set().union(*(future.result() for future in reading))
    assert all(len(set(row)) == 1 for row in seen)


def test_a_store_of_other_declarations_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path / "tiny")
    with pytest.raises(StoreStale, match="never applied"):
        online_features(WORLD, home, [1], [], STAMP)
    apply(WORLD, home)
    store = OnlineStore(WORLD, home)
    # on Redis the homes of one world share what is stored
    assert store.features([404], [], STAMP).missing["user_stats"] == {"absent": 1}
    (home.registry / RECORD).write_text('{"digest": "other"}')
    with pytest.raises(StoreStale, match="other declarations"):
        store.features([1], [], STAMP)


@pytest.mark.parametrize("wrong", [4.611686018427388e18, None, "7", float("nan")])
def test_an_id_that_is_no_integer_is_refused(store: OnlineStore, wrong: Any) -> None:
    """B02: a float may be another id already, so it is never rounded to one."""
    with pytest.raises(GemlineError, match=r"ad_ids: .* is no 64-bit integer; pass ids as integers"):
        store.features([1], [10, wrong], STAMP)
    with pytest.raises(GemlineError, match="user_ids: 9223372036854775808 is no 64-bit integer"):
        store.features([2**63], [], STAMP)


def test_neighbouring_ids_stay_apart(home: Home, store: OnlineStore) -> None:
    """B02: 2^62 + 1 and 2^62 + 2 are one number as floats, and so is 2^53 + 1 with 2^53."""
    ids = [2**62 + 1, 2**62 + 2, 2**53, 2**53 + 1]
    for place, user in enumerate(ids):
        put(home, "user_stats", user, user_events_1d=float(place))
    found = store.features(ids, [], STAMP + timedelta(hours=1)).users
    assert found.index.tolist() == ids
    assert found["user_events_1d"].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_row_without_an_id_is_refused_whole(home: Home, store: OnlineStore) -> None:
    """B02: a push whose ids went through floats says so, and writes nothing."""
    spec = view_specs(WORLD)["user_stats"]
    values = {name: pa.array([8.0, 8.0]) for name in spec.features}
    stamps = {"event_timestamp": [STAMP] * 2, "available_ts": [STAMP] * 2}
    for ids in (pa.array([31, None]), pa.array([31.0, 32.0])):
        with pytest.raises(GemlineError, match=r"user_stats: column user_id: .* is no 64-bit integer"):
            write_rows(feature_store(WORLD, home), spec, pa.table({"user_id": ids, **stamps, **values}))
    assert store.features([31], [], STAMP + timedelta(hours=1)).missing["user_stats"] == {"absent": 1}


def test_now_needs_a_zone(store: OnlineStore) -> None:
    with pytest.raises(GemlineError, match="time zone"):
        store.features([1], [10], STAMP.replace(tzinfo=None))


def test_stamps_do_not_depend_on_the_machines_zone(
    home: Home, store: OnlineStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """02:30 UTC of a day on which New York's clocks jump from 02:00 to 03:00."""
    stamp = datetime(2024, 3, 10, 2, 30, tzinfo=UTC)
    try:
        monkeypatch.setenv("TZ", "America/New_York")
        time.tzset()
        put(home, "user_stats", 8, stamp, user_events_1d=1.0)
        first = stamp + LAG + timedelta(microseconds=1)
        assert store.features([8], [], first).missing["user_stats"] == {}
        assert store.features([8], [], first - timedelta(microseconds=1)).missing["user_stats"] == {"early": 1}
    finally:
        monkeypatch.undo()
        time.tzset()


def test_reading_needs_no_spark(home: Home) -> None:
    code = (
        "import sys; from pathlib import Path; from datetime import datetime, UTC; "
        "from features.home import Home; from features.worlds import load_world; "
        "from features.store.lookup import online_features; "
        f"found = online_features(load_world('tiny'), Home(Path({str(home.root)!r})), [1], [10], "
        "datetime(2024, 3, 10, 6, tzinfo=UTC)); "
        "print(found.users.loc[1, 'country'], [n for n in ('pyspark', 'dagster', 'torchrec') if n in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split(maxsplit=1) == [str(BIG), "[]\n"]
