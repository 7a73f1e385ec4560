"""Solaris on tables: what to compute before it is asked for, and what a request of the past would have been given.

A run of day P stands at `run_instant(P)`, when all that P brought is known. Its candidates are chosen from the days
up to P alone. A request is answered by the newest run that is not younger than itself, unless that run has expired;
`train_vectors` is that rule of `serving.solaris.cache` on whole days of examples, so training sees what serving
gives, its misses included.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from features.clock import run_instant
from features.days import day_bounds, day_range, micros, micros_of, shift
from features.instants import local_day

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from features.tables import Tables
    from features.worlds.schema import World

RUNS = "ds STRING, fm_generation STRING, runs ARRAY<BIGINT>"
VECTORS = "run_ts TIMESTAMP, fm_generation STRING, surface STRING, user_id BIGINT, ad_id BIGINT, vector ARRAY<FLOAT>"

Runs = dict[str, dict[str, list[int]]]
"""Day -> generation -> instants (UTC microseconds) of the runs that may answer a request of that day."""


# ------------------------------------------------------------------------ candidates


def candidates(spark: "SparkSession", world: "World", days: Sequence[str], tables: "Tables") -> "DataFrame":
    """Rows of `solaris_candidates` for runs of the given days.

    Reads events and impressions of these days and of `precompute.active_days - 1` days before each.

    Raises:
        GateClosed: something that it reads is not readable.
    """
    back = world.precompute.active_days - 1
    window = {day for ds in days for day in day_range(max(shift(ds, -back), world.first_day), ds)}
    needed = sorted(window)
    return candidates_of(tables.read("impressions", needed), tables.read("events", needed), world, days)


def candidates_of(impressions: "DataFrame", events: "DataFrame", world: "World", days: Sequence[str]) -> "DataFrame":
    """For every active user and surface of a vertical, the ads that are most likely to be asked for.

    A user is active with an event among the last `active_days` days of arrivals; an ad can be asked for on a
    surface on which it was shown in these days. Each user's ads are ranked by

        own engagements + popularity,

    where an event of today is one engagement and one of `active_days - 1` days ago or older `1 / active_days`,
    and popularity is the ad's share of all events of the surface's ads in the window: the numerator of the user's
    own share, smoothed by one event. Ads of equal priority follow by how often they were shown, then by ad.

    Args:
        impressions: rows of `impressions`, at least those of the window of each asked day.
        events: rows of `events`, likewise; those stamped after a day's end are left for later days.
        world: names the surfaces, the window and the budget.
        days: asked days.

    Returns:
        run_ts, surface, user_id, ad_id, priority, ds; at most `ads_per_user` rows a (ds, surface, user).
    """
    budget = world.precompute.ads_per_user
    happened = _happened(events, world, days)
    known = _known_ads(impressions, happened, world, days)
    ranked_ads = Window.partitionBy("ds", "surface").orderBy(F.desc("popularity"), F.desc("shown"), "ad_id")
    # no other ad that a user did not engage with can be among the user's best
    popular = known.withColumn("_place", F.row_number().over(ranked_ads)).where(F.col("_place") <= budget)
    users = happened.where("user_id is not null")
    own = users.where("ad_id is not null").groupBy("ds", "user_id", "ad_id").agg(F.sum("weight").alias("own"))
    general = users.select("ds", "user_id").distinct().join(popular.drop("_place"), "ds")
    pairs = own.join(known, ["ds", "ad_id"]).unionByName(general.withColumn("own", F.lit(0).cast("bigint")))
    merged = pairs.groupBy("ds", "surface", "user_id", "ad_id").agg(
        F.max("own").alias("own"), F.max("popularity").alias("popularity"), F.max("shown").alias("shown")
    )
    priority = F.col("own") / F.lit(world.precompute.active_days) + F.col("popularity")
    ranked = Window.partitionBy("ds", "surface", "user_id").orderBy(F.desc("priority"), F.desc("shown"), "ad_id")
    best = merged.withColumn("priority", priority).withColumn("_place", F.row_number().over(ranked))
    best = best.where(F.col("_place") <= budget)
    return best.select(_run_ts(world, days).alias("run_ts"), "surface", "user_id", "ad_id", "priority", "ds")


def _happened(events: "DataFrame", world: "World", days: Sequence[str]) -> "DataFrame":
    """Events of each asked day's window, summed: ds, user_id, ad_id, count, weight (in parts of a full one)."""
    active = world.precompute.active_days
    arrived, stamped = (
        F.unix_date(F.to_date("ds")),
        F.unix_date(F.to_date(local_day(F.col("event_ts"), world.timezone))),
    )
    # an event older than the window on its arrival weighs least on all its days, however old it is
    summed = (
        events.select("user_id", "ad_id", arrived.alias("arrived"), stamped.alias("stamped"))
        .withColumn("stamped", F.greatest("stamped", F.col("arrived") - (active - 1)))
        .groupBy("user_id", "ad_id", "arrived", "stamped")
        .agg(F.count(F.lit(1)).alias("count"))
    )
    each = _on_days(summed, F.greatest("arrived", "stamped"), F.col("arrived") + (active - 1), days)
    age = F.unix_date(F.to_date("ds")) - F.col("stamped")
    weight = F.greatest(F.lit(active) - age, F.lit(1)) * F.col("count")
    return each.select("ds", "user_id", "ad_id", "count", weight.alias("weight"))


def _known_ads(impressions: "DataFrame", happened: "DataFrame", world: "World", days: Sequence[str]) -> "DataFrame":
    """Ads that can be asked for: ds, surface, ad_id, shown (times), popularity."""
    served = impressions.where(F.col("surface").isin(list(world.vertical_surfaces)))
    daily = served.groupBy("surface", "ad_id", F.unix_date(F.to_date("ds")).alias("day"))
    counted = daily.agg(F.count(F.lit(1)).alias("shown"))
    each = _on_days(counted, F.col("day"), F.col("day") + (world.precompute.active_days - 1), days)
    shown = each.groupBy("ds", "surface", "ad_id").agg(F.sum("shown").alias("shown"))
    engaged = happened.groupBy("ds", "ad_id").agg(F.sum("count").alias("count"))
    total = F.sum("count").over(Window.partitionBy("ds", "surface"))
    popularity = F.coalesce(F.try_divide("count", total), F.lit(0.0))
    return shown.join(engaged, ["ds", "ad_id"], "left").select(
        "ds", "surface", "ad_id", "shown", popularity.alias("popularity")
    )


def _on_days(rows: "DataFrame", start: "Column", stop: "Column", days: Sequence[str]) -> "DataFrame":
    """Each row once for every asked day `ds` from `start` to `stop` (days since 1970, both included)."""
    first, last = (F.unix_date(F.to_date(F.lit(ds))) for ds in (min(days), max(days)))
    spans = rows.withColumns({"_from": F.greatest(start, first), "_to": F.least(stop, last)}).where("_from <= _to")
    each = spans.withColumn("_day", F.explode(F.sequence("_from", "_to"))).drop("_from", "_to")
    ds = F.date_format(F.date_from_unix_date("_day"), "yyyy-MM-dd")
    return each.withColumn("ds", ds).where(F.col("ds").isin(list(days))).drop("_day")


def _run_ts(world: "World", days: Sequence[str]) -> "Column":
    pairs = [F.lit(part) for ds in days for part in (ds, micros(run_instant(world, ds)))]
    return F.timestamp_micros(F.create_map(*pairs)[F.col("ds")].cast("bigint"))


# --------------------------------------------------------------------- train vectors


def train_vectors(spark: "SparkSession", world: "World", days: Sequence[str], tables: "Tables") -> "DataFrame":
    """Rows of `solaris_train_vectors` for the examples of the given days.

    Reads their examples, and of the readable runs those that had not expired when a day began and stood before it
    ended.

    Raises:
        GateClosed: examples are not readable.
    """
    needed = _run_days(world, days, tables)
    vectors = tables.read("solaris_vectors", needed) if needed else spark.createDataFrame([], VECTORS)
    examples = tables.read("examples", days)
    return train_vectors_of(examples, vectors, runs_by_day(_runs(vectors), world, days), world)


def expected_train_rows(spark: "SparkSession", world: "World", days: Sequence[str], tables: "Tables") -> dict[str, int]:
    """Day -> number of rows that `solaris_train_vectors` must have: generations with a run for it, times examples."""
    needed = _run_days(world, days, tables)
    runs = runs_by_day(_runs(tables.read("solaris_vectors", needed)) if needed else [], world, days)
    served = tables.read("examples", days).where(F.col("surface").isin(list(world.vertical_surfaces)))
    counted = {row["ds"]: row["count"] for row in served.groupBy("ds").count().collect()}
    return {ds: len(runs[ds]) * counted.get(ds, 0) for ds in days}


def runs_by_day(runs: Sequence[tuple[str, int]], world: "World", days: Sequence[str]) -> Runs:
    """Runs that may answer a request of each day; generations without one are absent.

    Args:
        runs: generation and instant (UTC microseconds), in any order.
        world: gives the life of a run.
        days: asked days.
    """
    life = micros_of(world.precompute.life)
    found: Runs = {ds: {} for ds in days}
    for ds in days:
        start, end = map(micros, day_bounds(ds, world.timezone))
        for generation, run_us in sorted(set(runs)):
            if run_us < end and run_us + life > start:
                found[ds].setdefault(generation, []).append(run_us)
    return found


def train_vectors_of(examples: "DataFrame", vectors: "DataFrame", runs: Runs, world: "World") -> "DataFrame":
    """What each request would have been given by each generation.

    Args:
        examples: rows of `examples`; those of surfaces that no vertical serves are left out.
        vectors: rows of `solaris_vectors` of all `runs`.
        runs: see `runs_by_day`.
        world: names the surfaces and the life of a run.

    Returns:
        fm_generation, impression_id, run_ts (of the run that was asked, null when there was none), source, vector
        (null when the source is `none`), ds.
    """
    listed = [(ds, generation, stamps) for ds, by in runs.items() for generation, stamps in by.items()]
    due = examples.sparkSession.createDataFrame(listed, RUNS)
    served = examples.where(F.col("surface").isin(list(world.vertical_surfaces)))
    request_us, life = F.unix_micros("request_ts"), micros_of(world.precompute.life)
    standing = F.filter("runs", lambda run: (run <= request_us) & (request_us < run + F.lit(life).cast("bigint")))
    asked = served.join(F.broadcast(due), "ds").select(
        "ds", "fm_generation", "impression_id", "surface", "user_id", "ad_id", F.array_max(standing).alias("run_us")
    )
    stored = vectors.withColumn("run_us", F.unix_micros("run_ts"))
    key = ["fm_generation", "run_us", "surface", "user_id"]
    exact = stored.where("ad_id is not null").select(*key, "ad_id", F.col("vector").alias("exact"))
    own = stored.where("ad_id is null").select(*key, F.col("vector").alias("own"))
    # equality never holds for a null: neither without a run nor without a user
    joined = asked.join(exact, [*key, "ad_id"], "left").join(own, key, "left")
    source = F.when(F.col("exact").isNotNull(), "exact").when(F.col("own").isNotNull(), "user").otherwise("none")
    return joined.select(
        "fm_generation",
        "impression_id",
        F.timestamp_micros("run_us").alias("run_ts"),
        source.alias("source"),
        F.coalesce("exact", "own").alias("vector"),
        "ds",
    )


def _run_days(world: "World", days: Sequence[str], tables: "Tables") -> list[str]:
    """Readable days whose runs may answer a request of one of the days."""
    readable = tables.readable_days("solaris_vectors")
    stamps = {ds: micros(run_instant(world, ds)) for ds in readable}
    return sorted({run for by in runs_by_day(list(stamps.items()), world, days).values() for run in by})


def _runs(vectors: "DataFrame") -> list[tuple[str, int]]:
    """Generation and instant of every run; one without rows is no run, as in the cache."""
    rows = vectors.select("fm_generation", F.unix_micros("run_ts").alias("run_us")).distinct().collect()
    return [(row["fm_generation"], row["run_us"]) for row in rows]
