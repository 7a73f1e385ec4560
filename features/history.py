"""Behaviour sequences: a user's events of a day as sorted arrays, and the newest events as of a day's end.

`user_history` holds each event once, under the day on which it arrived; a reader joins the days that it may
see and cuts the length that it wants. `user_recent` is the short sequence that a feature store can serve: a
row only on days that brought the user news.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from features.instants import day_end_micros
from features.schema_of import array_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from features.tables import Tables
    from features.worlds.schema import World


def user_history(spark: "SparkSession", world: "World", days: Sequence[str], tables: "Tables") -> "DataFrame":
    """Rows of `user_history` for the given days; reads the events that arrived on them and nothing else."""
    return user_history_of(tables.read("events", days), world)


def user_recent(spark: "SparkSession", world: "World", days: Sequence[str], tables: "Tables") -> "DataFrame":
    """Rows of `user_recent` for the given days; reads `user_history` up to the last of them."""
    return user_recent_of(tables.read_through("user_history", max(days)), world, days)


def user_history_of(events: "DataFrame", world: "World") -> "DataFrame":
    """A user's arrivals of each day as arrays of equal length.

    Args:
        events: rows of `events`; those without a user are left out.
        world: names the history fields.

    Returns:
        user_id, event_us (microseconds, ascending), event_type (xxhash64 of the name), one array a history
        field, ds. Events of one microsecond are ordered by all other columns, so row order decides nothing.
    """
    event = F.struct(
        F.unix_micros("event_ts").alias("event_us"),
        F.xxhash64("event_type").alias("event_type"),
        *(F.col(field.name).cast("bigint").alias(field.name) for field in world.history.fields),
    )
    grouped = events.where("user_id is not null").groupBy("user_id", "ds").agg(F.collect_list(event).alias("log"))
    return _spread(grouped.withColumn("log", F.array_sort("log")), ["user_id"], world)


def user_recent_of(history: "DataFrame", world: "World", days: Sequence[str]) -> "DataFrame":
    """The last `recent_length` events of each user with arrivals on a day, as of the end of that day.

    Args:
        history: rows of `user_history`, all days up to the last asked one.
        world: names the length, the fields and the zone.
        days: asked days.

    Returns:
        user_id, event_timestamp = available_ts = end of ds, the arrays, ds. Events stamped after the day's
        end are left for later.
    """
    length = world.history.recent_length
    asked = F.col("ds").isin(list(days))
    touched = history.where(asked).select("user_id").distinct()
    names = array_columns(world)
    zipped = F.arrays_zip(*names)
    logs = history.join(touched, "user_id", "left_semi").select("user_id", "ds", zipped.alias("log"))
    logs = logs.withColumn("log", _shortened(length, world.timezone))
    until = Window.partitionBy("user_id").orderBy("ds").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    end = day_end_micros(F.col("ds"), days, world.timezone)
    merged = logs.withColumn("log", F.flatten(F.collect_list("log").over(until))).where(asked)
    known = merged.withColumn("end_us", end).withColumn("log", F.expr("filter(log, e -> e.event_us < end_us)"))
    newest = known.withColumn("log", _tail(F.array_sort("log"), length)).where(F.size("log") > 0)
    stamp = F.timestamp_micros("end_us")
    stamped = newest.withColumn("event_timestamp", stamp).withColumn("available_ts", stamp)
    return _spread(stamped, ["user_id", "event_timestamp", "available_ts"], world)


def _tail(log: "str | Column", length: int) -> "Column":
    size = F.size(log)
    return F.slice(log, F.greatest(size - length + 1, F.lit(1)), F.lit(length))


def _shortened(length: int, timezone: str) -> "Column":
    """A day's log without what no day's newest events can hold: its tail stays, and later days' stamps."""
    midnight = F.to_utc_timestamp(F.date_add(F.to_date("ds"), 1).cast("timestamp"), timezone)
    end = F.unix_micros(midnight)
    on_time = F.filter("log", lambda event: event["event_us"] < end)
    return F.concat(_tail(on_time, length), F.filter("log", lambda event: event["event_us"] >= end))


def _spread(frame: "DataFrame", keys: Sequence[str], world: "World") -> "DataFrame":
    return frame.select(*keys, *(F.col("log")[name].alias(name) for name in array_columns(world)), "ds")
