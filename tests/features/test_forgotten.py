"""The list of forgotten users names nobody, and what a log still holds of them is left out."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from features.forgotten import FILE, Forgotten, without_forgotten
from features.home import Home
from features.sources.base import REFUSED_SCHEMA, Extracted
from features.worlds import load_world
from tests.features.frames import EVENTS, IMPRESSIONS, OUTCOMES, USERS, frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.assets
WORLD = load_world("tiny")
GONE, TWIN = 2**62 + 1, 2**62 + 2


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    Forgotten.of(home).noted(home, GONE, {"done": True})
    return home


def test_the_list_keeps_a_salted_hash(home: Home, tmp_path: Path) -> None:
    text = (home.root / FILE).read_text()
    assert str(GONE) not in text and Forgotten.of(home).mark(GONE) in text
    assert Forgotten.of(home).users == {Forgotten.of(home).mark(GONE): {"done": True}}
    other = Home(tmp_path / "other")
    other.folder("tables")
    assert Forgotten.of(other).noted(other, GONE, {}).mark(GONE) != Forgotten.of(home).mark(GONE)


def test_a_second_record_leaves_the_first(home: Home) -> None:
    Forgotten.of(home).noted(home, 5, {"done": False})
    assert set(Forgotten.of(home).users) == {Forgotten.of(home).mark(user) for user in (GONE, 5)}
    assert json.loads((home.root / FILE).read_text())["salt"] == Forgotten.of(home).salt


def test_rows_of_forgotten_users_are_left_out(spark: "SparkSession", home: Home) -> None:
    users = [{"user_id": user} for user in (GONE, TWIN, None)]
    impressions = [row | {"request_id": place} for place, row in enumerate(users)]
    # who is not named is whose request it follows
    outcomes = [*impressions, {"request_id": 0}, {"request_id": 1}, {"request_id": 9}]
    refused = [("2024-03-07", "users", "r", "a.csv", json.dumps({"user": str(user)})) for user in (GONE, TWIN)]
    tables = {
        "impressions": frame(spark, IMPRESSIONS, impressions),
        "outcomes": frame(spark, OUTCOMES, outcomes),
        "events": frame(spark, EVENTS, users),
        "users": frame(spark, USERS, users),
        "ads": spark.range(3),
    }
    left = without_forgotten(Extracted(tables, spark.createDataFrame(refused, REFUSED_SCHEMA)), WORLD, home)
    for name in ("impressions", "events", "users"):
        assert {row["user_id"] for row in left.tables[name].collect()} == {TWIN, None}, name
        assert left.tables[name].columns == tables[name].columns
    kept = [(row["request_id"], row["user_id"]) for row in left.tables["outcomes"].collect()]
    assert sorted(kept, key=str) == [(1, TWIN), (1, None), (2, None), (9, None)]
    assert left.tables["outcomes"].columns == tables["outcomes"].columns
    assert left.tables["ads"].count() == 3
    assert left.refused is not None
    assert [json.loads(row["row"])["user"] for row in left.refused.collect()] == [str(TWIN)]


def test_without_a_list_nothing_is_looked_at(spark: "SparkSession", tmp_path: Path) -> None:
    extracted = Extracted({"ads": spark.range(3)})
    assert without_forgotten(extracted, WORLD, Home(tmp_path)) is extracted
