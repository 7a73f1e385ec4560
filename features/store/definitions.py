"""Declarations: entities, feature views and feature services of a world. Nothing is read or written here.

One entity a view: on Spark, Feast joins a view of two entities on their concatenated keys without a
separator. No view names a date partition column: Feast would compare the local day `ds` with UTC dates and
lose rows near midnight; Delta's own file statistics on `event_timestamp`, which every join filters on, skip
the other days' files instead.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from features.schema_of import ad_statistics, array_columns, attribute_types, user_statistics
from features.store.quiet import quiet
from features.worlds.schema import World

if TYPE_CHECKING:
    from feast import Entity, FeatureService, FeatureView, Field

LAYOUT = 1
"""Raise it when `definitions` builds other Feast objects from the same view specs."""

OWNER = "gemline"
FOREVER = timedelta(0)
JUST_BEFORE = timedelta(microseconds=-1)
"""Added to the asked instant: a value counts when it is known strictly before it."""
SERVICE = "gem_v1"
ONLINE_SERVICE = "gem_v1_online"


@dataclass(frozen=True)
class ViewSpec:
    """What one feature view is, before Feast sees it.

    Attributes:
        name: of the view.
        table: Delta table behind it.
        key: join key, `user_id` or `ad_id`.
        features: columns of the table and their Spark types (`double`, `bigint`, arrays of `bigint` or `float`), in
            order.
        ttl: life of a row; zero means that the newest row holds until a newer one.
        lag: available this long after its stamp.
        dense: a row for every id on every day, so the newest day holds everything.
        description: for people.
        prefix: put before column names to give feature names, where those of two views would be the same.
    """

    name: str
    table: str
    key: str
    features: Mapping[str, str]
    ttl: timedelta
    lag: timedelta
    dense: bool
    description: str
    prefix: str = ""

    @property
    def is_history(self) -> bool:
        """Whether it is the short history, which no example is joined with."""
        return self.table == "user_recent"

    @property
    def names(self) -> tuple[str, ...]:
        """Feature names, in the order of `features`."""
        return tuple(self.types)

    @property
    def types(self) -> dict[str, str]:
        """Feature name -> Spark type."""
        return {self.prefix + column: kind for column, kind in self.features.items()}


def view_specs(world: World) -> dict[str, ViewSpec]:
    """All views of a world by name; entities without attributes have no attribute view."""
    life, lag = world.stats_ttl, world.statistics.lag
    arrays = dict.fromkeys(array_columns(world), "array<bigint>")
    user_columns = {feature.name: "double" for feature in user_statistics(world)}
    ad_columns = {feature.name: "double" for feature in ad_statistics(world)}
    specs = [
        ViewSpec(
            "user_stats", "user_stats", "user_id", user_columns, life, lag, True,
            "Rolling counts and sums over a user's events up to the end of a day.",
        ),
        ViewSpec(
            "ad_stats", "ad_stats", "ad_id", ad_columns, life, lag, True,
            "Rolling counts, distinct users and shares of an ad's events up to the end of a day.",
        ),
        ViewSpec(
            "user_attributes", "users", "user_id", attribute_types(world, "users"), FOREVER, FOREVER, False,
            "Attributes of a user as known from an instant on; strings are hashed.",
        ),
        ViewSpec(
            "ad_attributes", "ads", "ad_id", attribute_types(world, "ads"), FOREVER, FOREVER, False,
            "Attributes of an ad as known from an instant on; strings are hashed.",
        ),
        ViewSpec(
            "user_recent", "user_recent", "user_id", arrays, FOREVER, FOREVER, False,
            f"A user's last {world.history.recent_length} events as of the end of a day, as sorted arrays.",
            "recent_",
        ),
    ]  # fmt: skip
    return {spec.name: spec for spec in specs if spec.features}


@dataclass(frozen=True)
class Definitions:
    """Feast objects of a world."""

    entities: "dict[str, Entity]"
    views: "dict[str, FeatureView]"
    services: "dict[str, FeatureService]"

    def all(self) -> list[object]:
        """Everything that `apply` takes."""
        return [*self.entities.values(), *self.views.values(), *self.services.values()]


def digest(world: World, tables_folder: Path) -> str:
    """Hash of everything that `definitions` declares; the same for the same world in the same folder."""
    parts = {
        "layout": LAYOUT,
        "world": [world.name, world.synthetic, world.users.description, world.ads.description],
        "tables": str(tables_folder),
        "views": [repr(spec) for spec in view_specs(world).values()],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def definitions(world: World, tables_folder: Path, versions: Mapping[str, int] | None = None) -> Definitions:
    """Declare a world's feature store.

    Args:
        world: names attributes, statistics and history.
        tables_folder: where the Delta tables are.
        versions: table -> version to read; tables that are not named are read at their newest version.
    """
    from feast import Entity, FeatureService, FeatureView, ValueType
    from feast.infra.offline_stores.contrib.spark_offline_store.spark_source import SparkSource
    from feast.table_format import DeltaFormat

    tags = {"world": world.name, "synthetic": str(world.synthetic).lower()}
    # an actor of the log; ids are exact 64-bit integers, strings come hashed
    entities = {
        "user_id": Entity(
            name="user", join_keys=["user_id"], value_type=ValueType.INT64, owner=OWNER, tags=tags,
            description=world.users.description or "who sees ads",
        ),
        "ad_id": Entity(
            name="ad", join_keys=["ad_id"], value_type=ValueType.INT64, owner=OWNER, tags=tags,
            description=world.ads.description or "what is shown",
        ),
    }  # fmt: skip
    views = {}
    for spec in view_specs(world).values():
        version = (versions or {}).get(spec.table)
        pinned = {} if version is None else {"versionAsOf": str(version)}
        with quiet():
            source = SparkSource(
                name=f"{spec.name}_source",
                path=str(tables_folder / spec.table),
                table_format=DeltaFormat(properties=pinned),
                field_mapping=dict(zip(spec.features, spec.names, strict=True)) if spec.prefix else None,
                timestamp_field="event_timestamp",
                created_timestamp_column="available_ts",
                description=f"Delta table {spec.table}; available_ts is logical, not the time of writing",
                owner=OWNER,
                tags=tags,
            )
        views[spec.name] = FeatureView(
            name=spec.name, entities=[entities[spec.key]], ttl=spec.ttl, schema=feature_fields(spec), source=source,
            online=True, description=spec.description, owner=OWNER, tags={**tags, "table": spec.table},
        )  # fmt: skip
    known = [view for name, view in views.items() if not view_specs(world)[name].is_history]
    services = {
        # what an example is joined with
        SERVICE: FeatureService(
            name=SERVICE, features=known, owner=OWNER, tags=tags,
            description="Statistics and attributes: an example's features.",
        ),
        # what a request is answered with; examples carry no sequence, the reader slices it from user_history
        ONLINE_SERVICE: FeatureService(
            name=ONLINE_SERVICE, features=list(views.values()), owner=OWNER, tags=tags,
            description="Statistics, attributes and the short history: what a request is scored with.",
        ),
    }  # fmt: skip
    return Definitions(entities, views, services)


def feature_fields(spec: ViewSpec) -> "list[Field]":
    """Feast's schema of a view: its key, then its features."""
    from feast import Field
    from feast.types import Array, Float32, Float64, Int64

    types = {"double": Float64, "bigint": Int64, "array<bigint>": Array(Int64), "array<float>": Array(Float32)}
    own = [Field(name=name, dtype=types[kind]) for name, kind in spec.types.items()]
    return [Field(name=spec.key, dtype=Int64), *own]
