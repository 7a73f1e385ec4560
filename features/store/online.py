"""The online store: published days in, features of a request out.

Writing. `materialize` takes rows of the days asked for, by the day that published them, from the version that
the ledger names: a late row with an old stamp is not missed, as it would be by a window over event times.
Dense views take the last day only, since it holds every id; sparse ones take all days. Values are built by
hand as Feast's messages, because Feast's own writers send a column through floating point as soon as it holds
a null, which rounds 64-bit ids. The store refuses older values (see `newest`), so days may be written again
and in any order.

Reading. Feast returns whatever is stored. `online_features` applies the rules of the training join instead: a
value stamped or available at `now` or later is not there yet, one older than its view's ttl is stale; both
read as missing, and are counted.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from features.days import day_bounds, shift
from features.errors import GemlineError
from features.instants import instant
from features.store.definitions import ViewSpec, view_specs
from features.store.historical import JUST_BEFORE
from features.store.quiet import quiet
from features.store.repo import feature_store

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from feast import FeatureStore
    from pyspark.sql import DataFrame

    from features.home import Home
    from features.tables import Tables
    from features.worlds.schema import World

HOLE = -(2**63)
"""A null inside a list: Feast's lists of integers cannot hold one."""


@dataclass(frozen=True)
class OnlineFeatures:
    """Features of one request.

    Attributes:
        users: one row an asked user id, in order; index `user_id`.
        ads: one row an asked ad id, in order; index `ad_id`. Integers are nullable Int64, lists are Python
            lists.
        missing: view -> reason (`absent`, `stale`, `early`) -> number of ids.
    """

    users: "pd.DataFrame"
    ads: "pd.DataFrame"
    missing: dict[str, dict[str, int]] = field(default_factory=dict)


# ------------------------------------------------------------------------------------------- writing


def materialize(world: "World", home: "Home", tables: "Tables", days: Sequence[str]) -> dict[str, int]:
    """Write published days into the online store.

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
    return (
        rows if spec.kind == "array" else rows.where((F.col("event_timestamp") < end) & (F.col("available_ts") < end))
    )


def _newest(rows: "DataFrame", spec: ViewSpec) -> "DataFrame":
    order = Window.partitionBy(spec.key).orderBy(F.desc("event_timestamp"), F.desc("available_ts"), F.desc("ds"))
    kept = rows.withColumn("_place", F.row_number().over(order)).where("_place = 1")
    return kept.select(spec.key, "event_timestamp", "available_ts", *spec.features)


def write_rows(store: "FeatureStore", spec: ViewSpec, rows: "pa.Table") -> int:
    """Write one view's rows, or push some between two days: key, event_timestamp, available_ts, features.

    Returns:
        Number of rows given; those older than what is stored change nothing.
    """
    from feast.infra.provider import get_provider
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey
    from feast.protos.feast.types.Value_pb2 import Value

    if rows.num_rows == 0:
        return 0
    values = [[_message(spec.kind, value) for value in rows.column(name).to_pylist()] for name in spec.features]
    keys = [
        EntityKey(join_keys=[spec.key], entity_values=[Value(int64_val=key)])
        for key in rows.column(spec.key).to_pylist()
    ]
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
    from feast.protos.feast.types.Value_pb2 import Int64List, Value

    if value is None:
        return Value()
    if kind == "double":
        return Value(double_val=value)
    if kind == "bigint":
        return Value(int64_val=value)
    return Value(int64_list_val=Int64List(val=[HOLE if item is None else item for item in value]))


# ------------------------------------------------------------------------------------------- reading


def online_features(
    world: "World", home: "Home", user_ids: Sequence[int], ad_ids: Sequence[int], now: datetime
) -> OnlineFeatures:
    """Features of users and ads as a request at `now` may see them.

    Args:
        world: whose store.
        home: where it is.
        user_ids: users, usually one.
        ad_ids: candidates.
        now: the request's instant, aware.

    Raises:
        StoreStale: the store was not applied.
        GemlineError: `now` has no time zone.
    """
    if now.tzinfo is None:
        raise GemlineError("online_features: `now` needs a time zone (for example datetime.now(UTC))")
    store = feature_store(world, home)
    missing: dict[str, dict[str, int]] = {}
    frames = {
        key: _read(store, [spec for spec in view_specs(world).values() if spec.key == key], key, ids, now, missing)
        for key, ids in (("user_id", user_ids), ("ad_id", ad_ids))
    }
    return OnlineFeatures(frames["user_id"], frames["ad_id"], missing)


def _read(
    store: "FeatureStore",
    specs: Sequence[ViewSpec],
    key: str,
    ids: Sequence[int],
    now: datetime,
    missing: dict[str, dict[str, int]],
) -> "pd.DataFrame":
    import pandas as pd

    columns: dict[str, Any] = {}
    for spec in specs:
        stamps, values = _fetch(store, spec, ids)
        faults = [_fault(spec, stamp, now) for stamp in stamps]
        missing[spec.name] = dict(Counter(fault for fault in faults if fault))
        kind = {"double": "float64", "bigint": "Int64", "array": "object"}[spec.kind]
        for name in spec.names:
            kept = [None if fault else _value(value) for fault, value in zip(faults, values[name], strict=True)]
            columns[name] = pd.Series(kept, dtype=kind)
    frame = pd.DataFrame(columns)
    frame.index = pd.Index(list(ids), name=key, dtype="int64")
    return frame


def _fetch(
    store: "FeatureStore", spec: ViewSpec, ids: Sequence[int]
) -> tuple[list[datetime | None], dict[str, list[Any]]]:
    """Stored stamps (None where nothing is stored) and values by feature, as Feast returns them."""
    if not ids:
        return [], {name: [] for name in spec.names}
    response = store.get_online_features(
        features=[f"{spec.name}:{name}" for name in spec.names],
        entity_rows=[{spec.key: item} for item in ids],
    )
    values = response.to_dict()
    names = list(response.proto.metadata.feature_names.val)
    vector = response.proto.results[names.index(spec.names[0])]
    stamps = [
        stamp.ToDatetime(tzinfo=UTC) if stamp.seconds or stamp.nanos else None for stamp in vector.event_timestamps
    ]
    return stamps, {name: values[name] for name in spec.names}


def _fault(spec: ViewSpec, stamp: datetime | None, now: datetime) -> str:
    """Why a stored row must not be used, by the very comparisons of the training join."""
    asked = now + JUST_BEFORE
    if stamp is None:
        return "absent"
    if stamp + spec.lag > asked:
        return "early"
    if spec.ttl and stamp < asked - spec.ttl:
        return "stale"
    return ""


def _value(value: Any) -> Any:
    return [None if item == HOLE else item for item in value] if isinstance(value, list) else value
