"""Filling the online store: published days in; `features.store.lookup` reads it.

`materialize` takes rows of the days asked for, by the day that published them, from the version that
the ledger names: a late row with an old stamp is not missed, as it would be by a window over event times.
Dense views take the last day only, since it holds every id; sparse ones take all days. Values are built by
hand as Feast's messages, because Feast's own writers send a column through floating point as soon as it holds
a null, which rounds 64-bit ids. The store refuses older values (see `newest`), so days may be written again
and in any order, and a push between two days holds against the daily job.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from features.clock import advance
from features.days import day_bounds, shift
from features.errors import GemlineError
from features.instants import instant
from features.store.definitions import ViewSpec, view_specs
from features.store.lookup import HOLE, entity_key, exact_ids
from features.store.quiet import quiet
from features.store.repo import feature_store

if TYPE_CHECKING:
    import pyarrow as pa
    from feast import FeatureStore
    from pyspark.sql import DataFrame

    from features.home import Home
    from features.tables import Tables
    from features.worlds.schema import World


def materialize(world: "World", home: "Home", tables: "Tables", days: Sequence[str]) -> dict[str, int]:
    """Write published days into the online store, and let the world's clock know of the newest.

    Args:
        world: whose store.
        home: where it is.
        tables: source of the rows.
        days: contiguous days in order; each must be readable.

    Returns:
        View -> number of ids written.

    Raises:
        StoreStale: the store was not applied.
        GateClosed: a day is not readable.
    """
    store = feature_store(world, home)
    counts = {}
    with home.writing(f"materializing {days[0]}..{days[-1]}"):
        for spec in view_specs(world).values():
            rows = _newest(_published(world, tables, spec, days), spec).toArrow()
            counts[spec.name] = write_rows(store, spec, rows)
            start, end = day_bounds(days[0], world.timezone)[0], day_bounds(days[-1], world.timezone)[1]
            with quiet():
                store.registry.apply_materialization(store.get_feature_view(spec.name), store.project, start, end)
        advance(home, days[-1])
    return counts


def _published(world: "World", tables: "Tables", spec: ViewSpec, days: Sequence[str]) -> "DataFrame":
    """Rows to write: what a request after the last day may know."""
    if spec.dense:
        return tables.read(spec.table, [days[-1]])
    # the day before too: an attribute that arrived there but was available only from the next day on was held
    # back then
    first = max(world.first_day, shift(days[0], -1))
    end = instant(day_bounds(days[-1], world.timezone)[1])
    rows = tables.read_through(spec.table, days[-1], first)
    # examples see attributes strictly before their day starts; the short history is stamped with the day's
    # end itself
    return rows if spec.is_history else rows.where((F.col("event_timestamp") < end) & (F.col("available_ts") < end))


def _newest(rows: "DataFrame", spec: ViewSpec) -> "DataFrame":
    order = Window.partitionBy(spec.key).orderBy(F.desc("event_timestamp"), F.desc("available_ts"), F.desc("ds"))
    kept = rows.withColumn("_place", F.row_number().over(order)).where("_place = 1")
    return kept.select(spec.key, "event_timestamp", "available_ts", *spec.features)


def write_rows(store: "FeatureStore", spec: ViewSpec, rows: "pa.Table") -> int:
    """Write one view's rows, or push some between two days: key, event_timestamp, available_ts, features.

    Returns:
        Number of rows given; those older than what is stored change nothing.

    Raises:
        GemlineError: an id is missing or no 64-bit integer, or a row has no event_timestamp.
    """
    from feast.infra.provider import get_provider

    if rows.num_rows == 0:
        return 0
    if rows.column("event_timestamp").null_count:
        raise GemlineError(f"{spec.name}: a row has no event_timestamp, so nothing says which value is newer; add it")
    values = [
        [_message(kind, value) for value in rows.column(name).to_pylist()] for name, kind in spec.features.items()
    ]
    ids = exact_ids(f"{spec.name}: column {spec.key}", rows.column(spec.key).to_pylist())
    keys = [entity_key(spec.key, item) for item in ids]
    stamps, known = (_instants(rows.column(name)) for name in ("event_timestamp", "available_ts"))
    data = [
        (key, dict(zip(spec.names, row, strict=True)), stamp, available)
        for key, row, stamp, available in zip(keys, zip(*values, strict=True), stamps, known, strict=True)
    ]
    get_provider(store.config).online_write_batch(store.config, store.get_feature_view(spec.name), data, None)
    return len(data)


def _instants(column: "pa.ChunkedArray") -> list[datetime]:
    return [
        value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC) for value in column.to_pylist()
    ]


def _message(kind: str, value: Any) -> Any:
    from feast.protos.feast.types.Value_pb2 import FloatList, Int64List, Value

    if value is None:
        return Value()
    if kind == "double":
        return Value(double_val=value)
    if kind == "bigint":
        return Value(int64_val=value)
    if kind == "array<float>":
        return Value(float_list_val=FloatList(val=value))
    return Value(int64_list_val=Int64List(val=[HOLE if item is None else item for item in value]))
