"""Names and types of the five ingested tables, for a given world; every adapter ends in `conform`."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.errors import WorldError
from features.worlds.schema import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
        entity = world.users if table == "users" else world.ads
        key = {f"{table[:-1]}_id": "bigint", "event_timestamp": "timestamp", "available_ts": "timestamp"}
        return key | dict.fromkeys(entity.attributes, "bigint")
    raise WorldError(f"'{table}' is no ingested table; known: {', '.join(TABLES)}")


def history_columns(world: World) -> list[str]:
    """Columns of `events` that the history has beside `ad_id`."""
    return [field.name for field in world.history.fields if field.name != "ad_id"]


def conform(frame: "DataFrame", table: str, world: World) -> "DataFrame":
    """Exactly the table's columns in order and type; those that the frame lacks are null."""
    have = set(frame.columns)
    picked = [
        (F.col(name) if name in have else F.lit(None)).cast(kind).alias(name)
        for name, kind in columns_of(table, world).items()
    ]
    return frame.select(*picked)


def empty(spark: "SparkSession", table: str, world: World) -> "DataFrame":
    """No rows, right columns."""
    return spark.createDataFrame([], ", ".join(f"{name} {kind}" for name, kind in columns_of(table, world).items()))
