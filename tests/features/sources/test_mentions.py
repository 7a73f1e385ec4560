"""Whose a refused row is: by the column that the world maps, else by any part of the line."""

import json
from typing import TYPE_CHECKING, Any

import pytest

from features.sources.base import REFUSED_SCHEMA
from features.sources.mentions import mentions, user_columns
from features.transform.hashing import string_id
from features.worlds import load_world
from features.worlds.schema import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.assets
TWIN = 2**62 + 1


def world_with(columns: dict[str, Any]) -> World:
    world = load_world("tiny")
    options = {**world.source.options, "impressions": {"file": "impressions.csv", "columns": columns}}
    return world.model_copy(update={"source": world.source.model_copy(update={"options": options})})


def found(spark: "SparkSession", world: World, user: int, rows: list[dict[str, str]], table: str) -> list[bool]:
    given = [("2024-03-07", table, f"{place:03}", "a.csv", json.dumps(row)) for place, row in enumerate(rows)]
    refused = spark.createDataFrame(given, REFUSED_SCHEMA)
    marked = refused.select("rule", mentions(refused, world, lambda item: item == user).alias("own"))
    return [row["own"] for row in marked.orderBy("rule").collect()]


def test_the_mapped_column_says_it_and_no_other(spark: "SparkSession") -> None:
    rows = [{"user": str(TWIN), "ad": ""}, {"user": str(TWIN + 1), "ad": str(TWIN)}, {"user": "", "ad": str(TWIN)}]
    assert found(spark, world_with({"user_id": "user"}), TWIN, rows, "impressions") == [True, False, False]


def test_text_is_the_id_that_ingest_makes_of_it(spark: "SparkSession") -> None:
    rows = [{"user": " alice "}, {"user": "Alice"}]
    assert found(spark, world_with({"user_id": "user"}), string_id("alice"), rows, "impressions") == [True, False]


def test_several_columns_make_one_id(spark: "SparkSession") -> None:
    world, rows = world_with({"user_id": ["shop", "user"]}), [{"shop": "a", "user": "7"}, {"shop": "b", "user": "7"}]
    assert found(spark, world, string_id("a/7"), rows, "impressions") == [True, False]


@pytest.mark.parametrize("table", ["impressions", "ads"])
def test_where_no_column_says_it_every_part_is_looked_at(spark: "SparkSession", table: str) -> None:
    """A line that could not be split, and a table without a user."""
    lines = [f'1,"{TWIN}",3', f"1,{TWIN}0,3", f'{{"user": {TWIN}', f"{TWIN + 1}", ""]
    rows = [{"line": line} for line in lines]
    assert found(spark, world_with({"user_id": "user"}), TWIN, rows, table) == [True, False, True, False, False]


def test_columns_are_found_in_one_file_or_several() -> None:
    one, two = {"columns": {"user_id": "user"}}, {"columns": {"user_id": ["shop", "user"]}}
    assert list(user_columns(one)) == [("user",)]
    assert list(user_columns([one, two, {"columns": {"ad_id": "ad"}}])) == [("user",), ("shop", "user")]
    assert list(user_columns("../log")) == []
