"""Examples: the features of each impression as they were known strictly before its `request_ts`.

Three kinds of features, three joins, none of which can lose or double a row:

- statistics: the newest ones that were known, of users and of ads, by the rule of Feast's point-in-time join
  (`features.as_of`; a test compares them with what Feast itself joins);
- attributes: known before the day of the request starts. A row counts from the first day that begins after
  its arrival day, its stamp and its availability; per (id, day) the newest one is found once, and impressions
  join it by equality. What is learned of an id during a day is therefore first used on the next one, as the
  online store has it, which is filled at the end of a day;
- what the request itself says: context, objective, format, surface, local hour and weekday (Monday = 0). An
  attribute named `objective` or `format` takes the place of what impressions say.

An impression without a user keeps its place, with the user's features null. Sequences are not part of an
example: the reader slices them from `user_history`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from features.as_of import with_newest
from features.days import day_range, shift
from features.instants import local_day, wall_clock
from features.schema_of import SURFACE_ID, ad_statistics, attribute_types, categorical_columns, user_statistics
from features.store.repo import require_applied

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from features.tables import Tables
    from features.worlds.schema import World

HEAD = ("impression_id", "request_id", "user_id", "ad_id", "surface", "request_ts", "keep_rate")


def examples(spark: "SparkSession", world: "World", days: Sequence[str], tables: "Tables") -> "DataFrame":
    """Rows of `examples` for the given days: one for each impression.

    Reads the days' impressions, statistics of the days before as far back as their ttl, attributes of all
    days before.

    Raises:
        GateClosed: something that it reads is not readable.
        StoreStale: the feature store was not applied.
    """
    return features_of(spark, world, days, tables, tables.read("impressions", days))


def features_of(
    spark: "SparkSession", world: "World", days: Sequence[str], tables: "Tables", impressions: "DataFrame"
) -> "DataFrame":
    """Columns of `examples` for rows of `impressions`, also for such as were never shown.

    Args:
        spark: session.
        world: names the features.
        days: days of the rows.
        tables: statistics and attributes of the days before are read.
        impressions: columns of the table.
    """
    with_stats = _with_statistics(world, days, tables, impressions)
    users = _attributes(world, days, tables, "users", "user_id", impressions)
    ads = _attributes(world, days, tables, "ads", "ad_id", impressions)
    return assembled(with_stats, users, ads, world)


def expected_rows(spark: "SparkSession", world: "World", days: Sequence[str], tables: "Tables") -> dict[str, int]:
    """Day -> number of examples that it must have: one for each impression."""
    counted = tables.read("impressions", days).groupBy("ds").count().collect()
    return dict.fromkeys(days, 0) | {row["ds"]: row["count"] for row in counted}


def assembled(impressions: "DataFrame", users: "DataFrame", ads: "DataFrame", world: "World") -> "DataFrame":
    """Put the columns of examples together.

    Args:
        impressions: rows of `impressions` with the statistics' columns added.
        users: attributes by (user_id, ds), at most one row each.
        ads: attributes by (ad_id, ds), at most one row each.
        world: names the features.

    Returns:
        The columns of `HEAD`, one BIGINT a categorical feature (an array of them a multi-valued one), one DOUBLE a
        statistic, one array of FLOAT a content embedding, ds.
    """
    types = attribute_types(world, "users") | attribute_types(world, "ads")
    impressions = impressions.drop(*types)
    joined = impressions.join(users, ["user_id", "ds"], "left").join(ads, ["ad_id", "ds"], "left")
    local = wall_clock(F.col("request_ts"), world.timezone)
    derived: dict[str, Column] = {
        SURFACE_ID: F.xxhash64("surface"),
        "hour": F.hour(local).cast("bigint"),
        "weekday": F.weekday(local).cast("bigint"),
    }
    # Spark hashes a null to its seed
    derived |= {name: F.when(F.col(name).isNotNull(), F.xxhash64(name)) for name in world.impression_texts}
    names = [name for name in categorical_columns(world).values() if name not in HEAD]
    categorical = [derived.get(name, F.col(name)).cast(types.get(name, "bigint")).alias(name) for name in names]
    dense = [F.col(feature.name) for feature in (*user_statistics(world), *ad_statistics(world))]
    return joined.select(*HEAD, *categorical, *dense, *world.vectors, "ds")


def _with_statistics(world: "World", days: Sequence[str], tables: "Tables", impressions: "DataFrame") -> "DataFrame":
    views = {"user_stats": ("user_id", user_statistics(world)), "ad_stats": ("ad_id", ad_statistics(world))}
    needed = statistics_days(world, days)
    if not needed:
        # the world's first day: nothing was published before it
        names = [feature.name for _, declared in views.values() for feature in declared]
        return impressions.select("*", *(F.lit(None).cast("double").alias(name) for name in names))
    # what is trained on is what the applied store serves
    require_applied(world, tables.home)
    for table, (key, declared) in views.items():
        names = [feature.name for feature in declared]
        impressions = with_newest(impressions, tables.read(table, needed), key, names, world.stats_ttl)
    return impressions


def statistics_days(world: "World", days: Sequence[str]) -> list[str]:
    """Days whose statistics requests of the given days can see: those before, as far back as the ttl."""
    back = world.stats_ttl.days + 1
    needed = {day for ds in days for day in day_range(shift(ds, -back), shift(ds, -1))}
    return sorted(day for day in needed if day >= world.first_day)


def _attributes(
    world: "World", days: Sequence[str], tables: "Tables", table: str, key: str, impressions: "DataFrame"
) -> "DataFrame":
    attributes = attribute_types(world, table)
    pairs = impressions.select(key, "ds").where(F.col(key).isNotNull()).distinct()
    last = shift(max(days), -1)
    if not attributes or last < world.first_day:
        return pairs.select("*", *(F.lit(None).cast(kind).alias(name) for name, kind in attributes.items()))
    return attributes_by_day(tables.read_through(table, last), pairs, key, tuple(attributes), world.timezone)


def attributes_by_day(
    rows: "DataFrame", pairs: "DataFrame", key: str, attributes: Sequence[str], timezone: str
) -> "DataFrame":
    """Newest attributes of each (id, day) among the rows known before the day starts.

    Args:
        rows: rows of `users` or `ads`.
        pairs: distinct (key, ds) that are asked for.
        key: `user_id` or `ad_id`.
        attributes: columns.
        timezone: of the days.

    Returns:
        key, ds and the attributes; pairs about which nothing is known are absent.
    """
    learned = F.greatest(
        F.col("ds"), local_day(F.col("event_timestamp"), timezone), local_day(F.col("available_ts"), timezone)
    )
    known = rows.select(key, learned.alias("learned"), "event_timestamp", "available_ts", *attributes)
    newest = Window.partitionBy(key, "ds").orderBy(
        F.desc("event_timestamp"), F.desc("available_ts"), F.desc("learned"), *attributes
    )
    joined = pairs.join(known, key).where("learned < ds")
    return joined.withColumn("_place", F.row_number().over(newest)).where("_place = 1").select(key, "ds", *attributes)
