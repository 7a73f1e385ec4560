"""Both engines of the online store: newer values stay (B13), age counts (B12), whoever writes and whoever reads.

No Spark: rows are pushed as `write_rows` pushes them, in every order, and from several writers at once.
"""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from features.clock import advance, now
from features.errors import GemlineError
from features.home import Home
from features.store.definitions import view_specs
from features.store.lookup import OnlineStore, entity_key
from features.store.online import write_rows
from features.store.repo import apply, feature_store
from features.worlds import load_world

WORLD = load_world("tiny")
DAY = datetime(2024, 3, 10, 4, tzinfo=UTC)
LATER = DAY + timedelta(hours=14)
MICRO = timedelta(microseconds=1)
Push = tuple[datetime, datetime, float]
"""Event time, availability, value."""


@pytest.fixture(scope="module")
def home(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("newest") / "tiny")
    apply(WORLD, home)
    return home


@pytest.fixture(scope="module")
def store(home: Home) -> OnlineStore:
    return OnlineStore(WORLD, home)


def push(home: Home, user: int, *rows: Push) -> None:
    """One batch of rows of one user."""
    spec = view_specs(WORLD)["user_stats"]
    stamps, known, values = zip(*rows, strict=True)
    columns: dict[str, Any] = {"user_id": [user] * len(rows), "event_timestamp": stamps, "available_ts": known}
    write_rows(feature_store(WORLD, home), spec, pa.table(columns | dict.fromkeys(spec.features, values)))


def read(store: OnlineStore, user: int, at: datetime = LATER) -> float | None:
    value = store.features([user], [], at).users.loc[user, "user_events_1d"]
    return None if pd.isna(value) else float(value)


def test_a_backfill_of_an_older_day_leaves_the_newer_value(home: Home, store: OnlineStore) -> None:
    """B13: the day D, then D-2."""
    push(home, 1, (DAY, DAY, 10.0))
    push(home, 1, (DAY - timedelta(days=2), DAY - timedelta(days=2), 4.0))
    assert read(store, 1) == 10.0


def test_a_push_at_noon_holds_against_the_daily_job(home: Home, store: OnlineStore) -> None:
    """B13: a push at 12:00, then the daily job whose newest row is of 00:00."""
    noon = DAY + timedelta(hours=12)
    push(home, 2, (noon, noon, 11.0))
    push(home, 2, (DAY, DAY, 10.0))
    assert read(store, 2) == 11.0


def test_any_order_ends_in_the_newest_value(home: Home, store: OnlineStore) -> None:
    """B13: days, pushes and corrections in all 120 orders, one by one and in one batch."""
    noon = DAY + timedelta(hours=6)
    rows: list[Push] = [
        (DAY - timedelta(days=1), DAY - timedelta(days=1), 1.0),
        (DAY, DAY, 2.0),
        # within a second of each other
        (noon, noon, 3.0),
        (noon + MICRO, noon + MICRO, 4.0),
        # known later, of the same stamp
        (noon + MICRO, noon + timedelta(hours=1), 5.0),
    ]
    for number, order in enumerate(itertools.permutations(rows)):
        user = 1000 + number
        if number % 2:
            push(home, user, *order)
        else:
            for row in order:
                push(home, user, row)
        assert read(store, user) == 5.0, order


def test_a_restated_value_of_equal_stamps_takes_effect(home: Home, store: OnlineStore) -> None:
    """A day that is published again has the stamps it had; plain Feast on Redis drops it."""
    push(home, 3, (DAY, DAY, 6.0))
    push(home, 3, (DAY, DAY, 7.0))
    assert read(store, 3) == 7.0


def test_two_writers_at_once_leave_the_newer_value(home: Home, store: OnlineStore) -> None:
    """B13: between looking and writing nobody else writes; a row is of one write, never of two."""
    barrier = threading.Barrier(2)

    def writer(first: int) -> None:
        barrier.wait()
        for step in range(first, 40, 2):
            stamp = DAY + timedelta(seconds=step)
            push(home, 4, (stamp, stamp, float(step)))

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(writer, first) for first in (0, 1)]:
            done.result()
    row = store.features([4], [], LATER).users.loc[4, list(view_specs(WORLD)["user_stats"].features)]
    assert set(row) == {39.0}


def test_a_row_without_an_event_time_is_refused(home: Home) -> None:
    spec = view_specs(WORLD)["user_stats"]
    stamps = pa.array([None], pa.timestamp("us", "UTC"))
    columns = {"user_id": [5], "event_timestamp": stamps, "available_ts": stamps}
    with pytest.raises(GemlineError, match="nothing says which value is newer"):
        write_rows(feature_store(WORLD, home), spec, pa.table(columns | {name: [1.0] for name in spec.features}))


@pytest.mark.parametrize(
    ("age", "value"),
    [
        (WORLD.stats_ttl - timedelta(seconds=1), 5.0),
        # the boundary, as in the training join: ttl itself still counts, and so does a microsecond more
        (WORLD.stats_ttl, 5.0),
        (WORLD.stats_ttl + MICRO, 5.0),
        (WORLD.stats_ttl + 2 * MICRO, None),
        (timedelta(days=3), None),
    ],
)
def test_an_expired_value_is_missing_for_plain_feast_too(
    home: Home, store: OnlineStore, age: timedelta, value: float | None
) -> None:
    """B12: `get_online_features`, hence `feast serve`, agrees with the scoring service by the world's clock."""
    advance(home, "2024-03-10")
    at = now(WORLD, home)
    # one id for each age: an older value would not replace a newer one
    user = 6_000_000 + age // timedelta(seconds=1) * 10 + age.microseconds
    push(home, user, (at - age, at - age, 5.0))
    assert read(store, user, at) == value
    answer = feature_store(WORLD, home).get_online_features(
        features=["user_stats:user_events_1d"], entity_rows=[{"user_id": user}, {"user_id": 404}]
    )
    assert answer.to_dict()["user_events_1d"] == [value, None]


def test_a_value_without_ttl_holds_for_plain_feast(home: Home) -> None:
    advance(home, "2024-03-10")
    spec = view_specs(WORLD)["user_attributes"]
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    columns = {"user_id": [7], "event_timestamp": [long_ago], "available_ts": [long_ago]}
    values = {"country": pa.array([2**61 + 1]), "age_band": pa.array([None], pa.int64())}
    write_rows(feature_store(WORLD, home), spec, pa.table(columns | values))
    answer = feature_store(WORLD, home).get_online_features(
        features=["user_attributes:country", "user_attributes:age_band"], entity_rows=[{"user_id": 7}]
    )
    assert answer.to_dict() == {"user_id": [7], "country": [2**61 + 1], "age_band": [None]}


def test_forgetting_an_id_leaves_its_neighbours(home: Home, store: OnlineStore) -> None:
    push(home, 8, (DAY, DAY, 1.0))
    push(home, 9, (DAY, DAY, 2.0))
    feast = feature_store(WORLD, home)
    engine = feast._get_provider().online_store  # type: ignore[attr-defined]
    key = entity_key("user_id", 8)
    held = engine.forget(feast.config, key, delete=False)
    assert held > 0 and read(store, 8) == 1.0
    assert engine.forget(feast.config, key, delete=True) == held
    assert engine.forget(feast.config, key, delete=True) == 0
    assert (read(store, 8), read(store, 9)) == (None, 2.0)
