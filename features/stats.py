"""Rolling statistics of users and ads up to the end of a day, for one day or a whole range in one pass.

An event counts in the rows of the days D with `known <= D` and `D - w < day <= D`: `day` is the local day of
its stamp, `known` the later of that and its arrival day. So each event adds something on one day and takes it
back on another, and the rows of all days are running sums of these changes. Distinct counts work the same
way: an id's events with one request (or user) hold it for a union of such intervals, and an event adds only
the part that earlier ones did not cover. Sums are of whole numbers (money in ten-thousandths), hence the same
in any order.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from features.days import micros_of
from features.instants import day_end_micros, later, wall_clock
from features.schema_of import AD_MEASURES, USER_MEASURES, ad_statistics, user_statistics

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from features.tables import Tables
    from features.transform.schema import Dense
    from features.worlds.schema import World

MONEY_UNITS = 10_000
DAY_US = 86_400_000_000
SHARE_DIGITS = 12
AGE_DIGITS = 6


def user_stats(spark: "SparkSession", world: "World", days: Sequence[str], tables: "Tables") -> "DataFrame":
    """Rows of `user_stats` for the given days; reads all events that arrived up to the last of them."""
    return user_stats_of(tables.read_through("events", max(days)), world, days)


def ad_stats(spark: "SparkSession", world: "World", days: Sequence[str], tables: "Tables") -> "DataFrame":
    """Rows of `ad_stats` for the given days; reads all events that arrived up to the last of them."""
    return ad_stats_of(tables.read_through("events", max(days)), world, days)


def user_stats_of(events: "DataFrame", world: "World", days: Sequence[str]) -> "DataFrame":
    """Statistics of users.

    Args:
        events: rows of `events`, all that arrived until the last asked day.
        world: names the windows, the lag and the zone.
        days: asked days.

    Returns:
        user_id, event_timestamp (end of ds), available_ts, the columns of `user_statistics`, ds; a row a day
        for every user with an event in the longest window.
    """
    measures = [name for name, _ in USER_MEASURES]
    rows = _rolling(events, "user_id", measures, world, days)
    return _finished(rows, "user_id", "user", user_statistics(world), world, days)


def ad_stats_of(events: "DataFrame", world: "World", days: Sequence[str]) -> "DataFrame":
    """Statistics of ads, as `user_stats_of`; `users` is exact, `share` is of all events of the window."""
    measures = [name for name, _ in AD_MEASURES if name != "share"]
    rows = _rolling(events, "ad_id", measures, world, days)
    # a day's total is the count of all ads as if they were one; a window over the rows would sort them all once more
    as_one = events.where("ad_id IS NOT NULL").withColumn("ad_id", F.lit(0).cast("bigint"))
    counts = {f"events_{window}d": f"total_{window}d" for window in world.statistics.windows}
    totals = _rolling(as_one, "ad_id", ["events"], world, days).select("ds", *counts).withColumnsRenamed(counts)
    rows = rows.join(F.broadcast(totals), "ds", "left")
    for window in world.statistics.windows:
        share = F.try_divide(F.col(f"events_{window}d"), F.col(f"total_{window}d"))
        rows = rows.withColumn(f"share_{window}d", F.round(share, SHARE_DIGITS))
    return _finished(rows, "ad_id", "ad", ad_statistics(world), world, days)


def _rolling(
    events: "DataFrame", key: str, measures: Sequence[str], world: "World", days: Sequence[str]
) -> "DataFrame":
    """Measures of each id on each asked day: id, ds, `<measure>_<w>d` (whole numbers), last_us, first_us."""
    records = _records(events, key, world.timezone)
    slots = [(measure, window) for measure in measures for window in world.statistics.windows]
    changes = _changes(records, slots)
    steps = _running(changes, slots, max(world.statistics.windows))
    first, last = F.to_date(F.lit(min(days))), F.to_date(F.lit(max(days)))
    start = F.greatest(F.col("at"), F.unix_date(first))
    stop = F.least(F.coalesce(F.col("following") - 1, F.unix_date(last)), F.unix_date(last))
    spans = steps.where(start <= stop).withColumn("day", F.explode(F.sequence(start, stop)))
    ds = F.date_format(F.date_from_unix_date("day"), "yyyy-MM-dd")
    return spans.withColumn("ds", ds).where(F.col("ds").isin(list(days))).drop("at", "following", "day")


def _records(events: "DataFrame", key: str, timezone: str) -> "DataFrame":
    day = F.unix_date(F.to_date(wall_clock(F.col("event_ts"), timezone)))
    return events.where(F.col(key).isNotNull()).select(
        F.col(key).alias("id"),
        day.alias("day"),
        F.greatest(day, F.unix_date(F.to_date("ds"))).alias("known"),
        F.unix_micros("event_ts").alias("us"),
        F.coalesce(F.round(F.col("value") * MONEY_UNITS).cast("bigint"), F.lit(0)).alias("money"),
        F.col("request_id").alias("requests"),
        F.col("user_id").alias("users"),
    )


def _changes(records: "DataFrame", slots: Sequence[tuple[str, int]]) -> "DataFrame":
    """What changes when: id, at, slot, amount; and rows without a slot for the stamps known from then on."""
    summed = records.groupBy("id", "known", "day").agg(F.count(F.lit(1)).alias("events"), F.sum("money").alias("value"))
    plain = [slot for slot in slots if slot[0] in ("events", "value")]
    parts = [_exploded(summed, [(slots.index(s), F.col(s[0]), F.col("known"), s[1]) for s in plain])]
    for item in ("requests", "users"):
        distinct = [slot for slot in slots if slot[0] == item]
        if distinct:
            parts.append(_distinct_changes(records, item, [(slots.index(slot), slot[1]) for slot in distinct]))
    stamps = records.groupBy("id", F.col("known").alias("at")).agg(
        F.lit(None).cast("int").alias("slot"),
        F.lit(0).cast("bigint").alias("amount"),
        F.max("us").alias("last_us"),
        F.min("us").alias("first_us"),
    )
    for part in parts:
        stamps = stamps.unionByName(part, allowMissingColumns=True)
    return stamps


def _distinct_changes(records: "DataFrame", item: str, slots: Sequence[tuple[int, int]]) -> "DataFrame":
    seen = records.where(F.col(item).isNotNull()).select("id", item, "known", "day").distinct()
    earlier = Window.partitionBy("id", item).orderBy("known", "day").rowsBetween(Window.unboundedPreceding, -1)
    covered = seen.withColumn("reach", F.max("day").over(earlier))
    # what earlier events of the same item hold until `reach + w` is not added again; `greatest` skips nulls
    starts = [(slot, F.lit(1), F.greatest(F.col("known"), F.col("reach") + window), window) for slot, window in slots]
    return _exploded(covered, starts)


def _exploded(frame: "DataFrame", entries: "Sequence[tuple[int, Column, Column, int]]") -> "DataFrame":
    """Two changes for each entry (slot, amount, start, window) with an interval [start, day + window)."""
    changes = []
    for slot, amount, start, window in entries:
        end = F.col("day") + window
        for at, signed in ((start, amount), (end, -amount)):
            change = F.struct(
                at.cast("int").alias("at"), F.lit(slot).alias("slot"), signed.cast("bigint").alias("amount")
            )
            changes.append(F.when(start < end, change))
    rows = frame.select("id", F.explode(F.array(*changes)).alias("change")).where("change is not null")
    return rows.select("id", "change.at", "change.slot", "change.amount")


def _running(changes: "DataFrame", slots: Sequence[tuple[str, int]], longest: int) -> "DataFrame":
    """State of each id from one change until the next, where it has an event in the longest window."""
    columns = {f"{measure}_{window}d": number for number, (measure, window) in enumerate(slots)}
    sums = [
        F.sum(F.when(F.col("slot") == number, F.col("amount")).otherwise(0)).alias(name)
        for name, number in columns.items()
    ]
    daily = changes.groupBy("id", "at").agg(
        *sums, F.max("last_us").alias("last_us"), F.min("first_us").alias("first_us")
    )
    ordered = Window.partitionBy("id").orderBy("at")
    until = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    steps = daily.select(
        "id",
        "at",
        F.lead("at").over(ordered).alias("following"),
        *(F.sum(name).over(until).alias(name) for name in columns),
        F.max("last_us").over(until).alias("last_us"),
        F.min("first_us").over(until).alias("first_us"),
    )
    return steps.where(F.col(f"events_{longest}d") > 0)


def _finished(
    rows: "DataFrame", key: str, prefix: str, declared: "Sequence[Dense]", world: "World", days: Sequence[str]
) -> "DataFrame":
    end = day_end_micros(F.col("ds"), days, world.timezone)
    ages = {
        "days_since_last": F.round((end - F.col("last_us")) / DAY_US, AGE_DIGITS),
        "span_days": F.round((end - F.col("first_us")) / DAY_US, AGE_DIGITS),
    }
    columns = []
    for feature in declared:
        name = feature.name.removeprefix(f"{prefix}_")
        value = ages[name] if name in ages else F.col(name)
        if feature.kind == "value":
            value = value / MONEY_UNITS
        columns.append(value.cast("double").alias(feature.name))
    stamp = F.timestamp_micros(end)
    lag = world.statistics.lag
    return rows.select(
        F.col("id").alias(key),
        stamp.alias("event_timestamp"),
        (later(stamp, lag) if micros_of(lag) else stamp).alias("available_ts"),
        *columns,
        "ds",
    )
