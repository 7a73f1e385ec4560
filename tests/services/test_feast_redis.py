"""The online store on a real Redis: the same values as on SQLite, ids exact, an unknown id absent."""

from typing import TYPE_CHECKING

import pandas as pd
import pytest
import redis

from features.spark import session
from features.store.lookup import online_features
from features.store.online import materialize
from features.store.repo import apply
from tests.features.frames import utc
from tests.features.store_log import DAYS, copied

if TYPE_CHECKING:
    from features.tables import Tables

pytestmark = pytest.mark.services
NOON = utc("2024-03-10 16:00:00")


def filled(tables: "Tables") -> pd.DataFrame:
    """Features of two known users and an unknown one after three days."""
    apply(tables.world, tables.home)
    materialize(tables.world, tables.home, tables, DAYS[:3])
    return online_features(tables.world, tables.home, [1, 2, 99], [], NOON).users


def test_redis_answers_as_sqlite_does(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = filled(copied(session(), "beside_redis"))
    redis.Redis.from_url(redis_url).flushdb()
    monkeypatch.setenv("GEMLINE_ONLINE_STORE", redis_url)
    found = filled(copied(session(), "on_redis"))
    pd.testing.assert_frame_equal(found, expected)
    assert found.loc[99].isna().all()
    assert redis.Redis.from_url(redis_url).dbsize() > 0
