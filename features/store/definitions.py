"""Declarations: entities, feature views and feature services of a world. Nothing is read or written here.

One entity a view: on Spark, Feast joins a view of two entities on their concatenated keys without a
separator. No view names a date partition column: Feast would compare the local day `ds` with UTC dates and
lose rows near midnight; Delta's own file statistics on `event_timestamp`, which every join filters on, skip
the other days' files instead.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from features.days import micros_of
from features.schema_of import ad_statistics, array_columns, attribute_types, user_statistics
from features.store.age import LAG, NO_TIME
from features.store.notes import Note, notes_of
from features.store.quiet import quiet
from features.worlds.schema import World

if TYPE_CHECKING:
    from feast import Entity, FeatureService, FeatureView, Field

    from features.store.versions import SchemaVersion

LAYOUT = 2
"""Raise it when `definitions` builds other Feast objects from the same view specs."""

FOREVER = NO_TIME


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
        notes: column -> what people should know of it.
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
    notes: Mapping[str, Note]
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
    life, lag, notes = world.stats_ttl, world.statistics.lag, notes_of(world)
    arrays = dict.fromkeys(array_columns(world), "array<bigint>")
    user_columns = {feature.name: "double" for feature in user_statistics(world)}
    ad_columns = {feature.name: "double" for feature in ad_statistics(world)}
    specs = [
        ViewSpec(
            "user_stats", "user_stats", "user_id", user_columns, life, lag, True,
            "Rolling counts and sums over a user's events up to the end of a day.", notes,
        ),
        ViewSpec(
            "ad_stats", "ad_stats", "ad_id", ad_columns, life, lag, True,
            "Rolling counts, distinct users and shares of an ad's events up to the end of a day.", notes,
        ),
        ViewSpec(
            "user_attributes", "users", "user_id", attribute_types(world, "users"), FOREVER, NO_TIME, False,
            "Attributes of a user as known from an instant on; strings are hashed.", notes,
        ),
        ViewSpec(
            "ad_attributes", "ads", "ad_id", attribute_types(world, "ads"), FOREVER, NO_TIME, False,
            "Attributes of an ad as known from an instant on; strings are hashed.", notes,
        ),
        ViewSpec(
            "user_recent", "user_recent", "user_id", arrays, FOREVER, NO_TIME, False,
            f"A user's last {world.history.recent_length} events as of the end of a day, as sorted arrays.",
            notes, "recent_",
        ),
    ]  # fmt: skip
    kept = [spec for spec in specs if spec.features]
    return {spec.name: replace(spec, notes={name: notes[name] for name in spec.features}) for spec in kept}


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
        "world": [world.name, world.owner, world.synthetic, world.users.description, world.ads.description],
        "tables": str(tables_folder),
        "views": [repr(spec) for spec in view_specs(world).values()],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def definitions(
    world: World,
    tables_folder: Path,
    schemas: "Sequence[SchemaVersion]",
    versions: Mapping[str, int] | None = None,
) -> Definitions:
    """Declare a world's feature store.

    Args:
        world: names attributes, statistics and history.
        tables_folder: where the Delta tables are.
        schemas: versions of the feature schema that get services; what they name is declared.
        versions: table -> version to read; tables that are not named are read at their newest version.
    """
    tags = {"world": world.name, "synthetic": str(world.synthetic).lower()}
    entities = _entities(world, tags)
    specs = view_specs(world)
    views = {
        spec.name: _view(world, spec, entities[spec.key], tables_folder, (versions or {}).get(spec.table), tags)
        for spec in specs.values()
    }
    services: dict[str, FeatureService] = {}
    for schema in schemas:
        services |= _services(world, schema, views, tags)
    return Definitions(entities, views, services)


def _entities(world: World, tags: dict[str, str]) -> "dict[str, Entity]":
    """Actors of the log; ids are exact 64-bit integers, strings come hashed."""
    from feast import Entity, ValueType

    described = {
        "user_id": ("user", world.users.description or "Who sees ads."),
        "ad_id": ("ad", world.ads.description or "What is shown."),
    }
    return {
        key: Entity(
            name=name, join_keys=[key], value_type=ValueType.INT64, owner=world.owner, description=text,
            tags={**tags, "ids": "exact 64-bit integers; text is xxhash64"},
        )
        for key, (name, text) in described.items()
    }  # fmt: skip


def _view(
    world: World, spec: ViewSpec, entity: "Entity", tables_folder: Path, version: int | None, tags: dict[str, str]
) -> "FeatureView":
    from feast import FeatureView
    from feast.infra.offline_stores.contrib.spark_offline_store.spark_source import SparkSource
    from feast.table_format import DeltaFormat

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
            owner=world.owner,
            tags=tags,
        )
    return FeatureView(
        name=spec.name, entities=[entity], ttl=spec.ttl, schema=feature_fields(spec), source=source, online=True,
        description=spec.description, owner=world.owner,
        tags={**tags, "table": spec.table, LAG: str(micros_of(spec.lag))},
    )  # fmt: skip


def _services(
    world: World, schema: "SchemaVersion", views: "Mapping[str, FeatureView]", tags: dict[str, str]
) -> "dict[str, FeatureService]":
    from feast import FeatureService

    chosen = {name: views[name][list(features)] for name, features in schema.features.items()}
    is_history = {spec.name: spec.is_history for spec in view_specs(world).values()}
    marks = {**tags, "schema_version": str(schema.number), "schema": schema.digest}
    offered = {
        # what an example is joined with
        schema.service: (
            [view for name, view in chosen.items() if not is_history[name]],
            "Statistics and attributes: an example's features.",
        ),
        # what a request is answered with; examples carry no sequence, the reader slices it from user_history
        schema.online_service: (
            list(chosen.values()),
            "Statistics, attributes and the short history: what a request is scored with.",
        ),
    }
    return {
        name: FeatureService(name=name, features=features, owner=world.owner, tags=marks, description=text)
        for name, (features, text) in offered.items()
    }


def feature_fields(spec: ViewSpec) -> "list[Field]":
    """Feast's schema of a view: its key, then its features."""
    from feast import Field
    from feast.types import Array, Float32, Float64, Int64

    types = {"double": Float64, "bigint": Int64, "array<bigint>": Array(Int64), "array<float>": Array(Float32)}
    key = Field(name=spec.key, dtype=Int64, description=f"Whose values these are: {spec.key}.", tags={"unit": "id"})
    own = [
        Field(
            name=spec.prefix + column,
            dtype=types[kind],
            description=spec.notes[column].description,
            tags={"unit": spec.notes[column].unit},
        )
        for column, kind in spec.features.items()
    ]
    return [key, *own]
