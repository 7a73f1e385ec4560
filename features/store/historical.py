"""Point-in-time retrieval through Feast, made strict and safe.

Feast joins inclusively, so an entity is asked for as of one microsecond before its instant: a value stamped
at the request, or available from it on, is not seen. `filter_by_created_timestamp` is always on: without it a
later correction would change the past. Sources are the table versions that the ledger names. A row lives
while its age is at most ttl + 1 microsecond.
"""

import shutil
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.errors import GemlineError
from features.instants import later
from features.store.age import JUST_BEFORE
from features.store.definitions import view_specs
from features.store.quiet import clean_session, quiet
from features.store.repo import pinned_store, require_applied
from features.store.versions import current, features_by_service

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from features.home import Home
    from features.tables import Tables
    from features.worlds.schema import World

MARGIN = timedelta(days=2)
STAMP = "event_timestamp"
GUARD = "_guard"
KEYS = ("user_id", "ad_id")
WHOLE = {"int8", "int16", "int32", "int64", "tinyint", "smallint", "int", "bigint", "int64[pyarrow]"}


def historical_features(
    spark: "SparkSession",
    world: "World",
    home: "Home",
    tables: "Tables",
    entities: "DataFrame | pd.DataFrame",
    features: str | Sequence[str] = "",
) -> "DataFrame":
    """Features of each row as they were known strictly before its instant.

    Args:
        spark: the session.
        world: whose store.
        home: where it is.
        tables: names the pinned versions.
        entities: columns `user_id` and/or `ad_id` (BIGINT, may be null), `event_timestamp`, and any others,
            which are carried along. From pandas, naive stamps mean UTC, and ids are whole numbers (Int64 where one
            may be missing).
        features: name of a feature service, or references `view:feature`; the service of an example's features by
            default.

    Returns:
        One row for each input row, with the features added; what is unknown, expired or without an id is
        null.

    Raises:
        StoreStale: the store was not applied.
        GemlineError: `event_timestamp` is absent or no timestamp, ids are no 64-bit integers, or there is no such
            service.
    """
    frame = _as_frame(spark, entities)
    edges = frame.agg(F.min(STAMP).alias("low"), F.max(STAMP).alias("high"))
    bounds = edges.select(F.unix_micros("low").alias("low"), F.unix_micros("high").alias("high")).first()
    require_applied(world, home)
    features = features or current(world, home).service
    if isinstance(features, str):
        pairs = features_by_service(world, home, features)
    else:
        pairs = [(view_specs(world)[view], name) for view, name in (reference.split(":") for reference in features)]
    if bounds is None or bounds["low"] is None:
        return frame.select("*", *(F.lit(None).cast(spec.types[name]).alias(name) for spec, name in pairs))
    guards = [F.timestamp_micros(F.lit(edge)) for edge in (bounds["low"], bounds["high"])]
    return _retrieve(spark, world, home, tables, frame, (later(guards[0], -MARGIN), later(guards[1], MARGIN)), features)


def _retrieve(spark, world, home, tables, frame, edges, features) -> "DataFrame":  # type: ignore[no-untyped-def]
    asked = frame.withColumn(STAMP, later(F.col(STAMP), JUST_BEFORE)).withColumn(GUARD, F.lit(False))
    # Feast takes the range of stamps from the frame, but reads it as the machine's local time and then as
    # UTC, which cuts hours of features off at an edge. Two rows without ids, days outside the range, keep
    # that from mattering.
    for edge in edges:
        guard = spark.range(1).select(edge.alias(STAMP), F.lit(True).alias(GUARD))
        asked = asked.unionByName(guard, allowMissingColumns=True)
    store, folder = pinned_store(world, home, tables)
    try:
        with clean_session(spark), quiet():
            job = store.get_historical_features(
                entity_df=asked,
                features=store.get_feature_service(features) if isinstance(features, str) else list(features),
                filter_by_created_timestamp=True,
            )
            joined = job.to_spark_df()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    kept = joined.where(~F.col(GUARD)).drop(GUARD)
    return kept.withColumn(STAMP, later(F.col(STAMP), -JUST_BEFORE))


def _as_frame(spark: "SparkSession", entities: "DataFrame | pd.DataFrame") -> "DataFrame":
    import pandas as pd

    if isinstance(entities, pd.DataFrame):
        if STAMP not in entities or not _holds_timestamps(entities[STAMP]):
            raise GemlineError(
                f"entities: column '{STAMP}' must hold timestamps (naive ones mean UTC), not dates or text"
            )
        _require_integers({name: str(entities[name].dtype) for name in KEYS if name in entities})
        stamps = pd.to_datetime(entities[STAMP], utc=True)
        if stamps.isna().any():
            raise GemlineError(f"entities: row {stamps.isna().argmax()} has no '{STAMP}'; every row needs its instant")
        numbers = (stamps - pd.Timestamp(0, tz="UTC")) // pd.Timedelta(microseconds=1)
        frame = spark.createDataFrame(entities.assign(**{STAMP: numbers.astype("int64")}))
        return frame.withColumn(STAMP, F.timestamp_micros(STAMP))
    types = dict(entities.dtypes)
    if types.get(STAMP) != "timestamp":
        raise GemlineError(f"entities: column '{STAMP}' must be a TIMESTAMP")
    _require_integers({name: types[name] for name in KEYS if name in types})
    return entities


def _holds_timestamps(column: "pd.Series") -> bool:
    """Also a column of single ones, which is what naive stamps, or several zones, beside each other make."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column):
        return True
    return len(column) > 0 and all(isinstance(value, datetime) for value in column)


def _require_integers(types: dict[str, str]) -> None:
    """One missing id makes pandas hold a column as floats, in which ids above 2^53 are already others."""
    for name, kind in types.items():
        if kind.lower() not in WHOLE:
            raise GemlineError(
                f"entities: column '{name}' is {kind}, which cannot hold 64-bit ids exactly; make it Int64 (BIGINT in "
                "Spark) where the ids are read, not here: what a float has lost is gone"
            )
