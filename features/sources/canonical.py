"""Names and types of the five ingested tables, for a given world; every adapter ends in `conform`.

A multi-valued attribute is an array of different ids, the first ones of the log and no more than the world keeps; it is
null when nothing is in it, never empty. A content embedding is an array of just its width, all finite, or null.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.errors import WorldError
from features.schema_of import attribute_types
from features.worlds.schema import World

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TABLES = ("impressions", "outcomes", "events", "users", "ads")


def columns_of(table: str, world: World) -> dict[str, str]:
    """Column to Spark type, in table order, `ds` last."""
    return {**_own_columns(table, world), "ds": "string"}


def _own_columns(table: str, world: World) -> dict[str, str]:
    ids = {"impression_id": "bigint", "request_id": "bigint", "user_id": "bigint", "ad_id": "bigint"}
    if table == "impressions":
        plain = {
            "surface": "string",
            "position": "int",
            "request_ts": "timestamp",
            "keep_rate": "double",
            "value": "double",
        }
        more = {"objective": "string", "format": "string", "window_end": "timestamp"}
        return ids | plain | more | dict.fromkeys(world.context_columns, "bigint")
    if table == "outcomes":
        keys = {"request_id": "bigint", "user_id": "bigint", "ad_id": "bigint"}
        return keys | {"event_type": "string", "event_ts": "timestamp", "value": "double"}
    if table == "events":
        own = {
            "user_id": "bigint",
            "event_ts": "timestamp",
            "event_type": "string",
            "ad_id": "bigint",
            "surface": "string",
        }
        return own | {"request_id": "bigint", "value": "double"} | dict.fromkeys(history_columns(world), "bigint")
    if table in ("users", "ads"):
        key = {f"{table[:-1]}_id": "bigint", "event_timestamp": "timestamp", "available_ts": "timestamp"}
        return key | attribute_types(world, table)
    raise WorldError(f"'{table}' is no ingested table; known: {', '.join(TABLES)}")


def history_columns(world: World) -> list[str]:
    """Columns of `events` that the history has beside `ad_id`."""
    return [field.name for field in world.history.fields if field.name != "ad_id"]


def conform(frame: "DataFrame", table: str, world: World) -> "DataFrame":
    """Exactly the table's columns in order and type; those that the frame lacks are null."""
    have = set(frame.columns)
    picked = {
        name: (F.col(name) if name in have else F.lit(None)).cast(kind)
        for name, kind in columns_of(table, world).items()
    }
    cut = {name: F.slice(bag(picked[name]), 1, most) for name, most in world.bags.items() if name in picked}
    return frame.select(*(column.alias(name) for name, column in (picked | cut).items()))


def bag(values: "Column") -> "Column":
    """The different values of an array, in order; null when there is none."""
    different = F.array_distinct(F.array_compact(values))
    return F.when(F.size(different) > 0, different)


def vector(numbers: "Column", width: int) -> "Column":
    """An array of just that many finite numbers; null when it is another."""
    finite = F.forall(numbers, lambda item: item.isNotNull() & ~F.isnan(item) & (F.abs(item) < float("inf")))
    return F.when((F.size(numbers) == width) & finite, numbers)


def empty(spark: "SparkSession", table: str, world: World) -> "DataFrame":
    """No rows, right columns."""
    return spark.createDataFrame([], ", ".join(f"{name} {kind}" for name, kind in columns_of(table, world).items()))
