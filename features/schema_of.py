"""From a world to the feature schema: which inputs a world's models have, and under which names.

Free of Spark, so that a server can import it. The column names of statistics and histories are declared here
too: `features.stats` and `features.history` compute exactly these, the feature store declares exactly these,
and the schema lists exactly these.
"""

from features.days import day_range, shift
from features.transform.schema import (
    Categorical,
    Content,
    Dense,
    DenseKind,
    FeatureSchema,
    History,
    HistoryField,
    Side,
    TaskSpec,
)
from features.worlds.schema import World

SURFACE_ID = "surface_id"
"""Column of the categorical feature `surface` in `examples`: `surface` itself holds the name."""

USER_MEASURES: tuple[tuple[str, DenseKind], ...] = (
    ("events", "count"),
    ("requests", "count"),
    ("value", "value"),
)
AD_MEASURES: tuple[tuple[str, DenseKind], ...] = (
    ("events", "count"),
    ("requests", "count"),
    ("users", "count"),
    ("share", "ratio"),
)
AGES = ("days_since_last", "span_days")


def user_statistics(world: World) -> tuple[Dense, ...]:
    """Columns of `user_stats`, in order."""
    return _statistics("user", USER_MEASURES, world)


def ad_statistics(world: World) -> tuple[Dense, ...]:
    """Columns of `ad_stats`, in order."""
    return _statistics("ad", AD_MEASURES, world)


def _statistics(prefix: str, measures: tuple[tuple[str, DenseKind], ...], world: World) -> tuple[Dense, ...]:
    windowed = [
        Dense(f"{prefix}_{measure}_{days}d", kind) for measure, kind in measures for days in world.statistics.windows
    ]
    return (*windowed, *(Dense(f"{prefix}_{age}", "age") for age in AGES))


def array_columns(world: World) -> tuple[str, ...]:
    """Array columns of histories: stamps, event types, then the world's history fields, `ad_id` first."""
    return ("event_us", "event_type", *(field.name for field in world.history.fields))


def categorical_columns(world: World) -> dict[str, str]:
    """Categorical feature of the world file -> its column in `examples`; they differ for `surface` only."""
    return {feature.name: SURFACE_ID if feature.name == "surface" else feature.name for feature in world.categorical}


def attribute_types(world: World, table: str) -> dict[str, str]:
    """Attribute -> Spark type, of `users` or `ads`: an id, a bag of ids, or a content embedding."""
    attributes = (world.users if table == "users" else world.ads).attributes
    return {
        name: "array<bigint>" if name in world.bags else "array<float>" if name in world.vectors else "bigint"
        for name in attributes
    }


def history_days(world: World, ds: str) -> list[str]:
    """Days of `user_history` that requests of a day may see, and at least one: the world's first."""
    last = ds if world.history.as_of == "request" else shift(ds, -1)
    return day_range(world.first_day, last) or [world.first_day]


def schema_of(world: World, history_length: int = 200) -> FeatureSchema:
    """The feature schema of a world.

    User id, user attributes, hour and weekday belong to the request; everything else, context columns
    included, may differ between the candidates of one request and is treated as theirs.

    Args:
        world: the world.
        history_length: events of the sequence that the reader cuts for a model.
    """
    shared = {"user_id", "hour", "weekday", *world.users.attributes}
    columns = categorical_columns(world)
    categorical = tuple(
        Categorical(columns[feature.name], feature.table, _side(feature.name, shared), feature.multi)
        for feature in world.categorical
    )
    fields = tuple(
        HistoryField(field.name, field.table, columns[field.candidate] if field.candidate else None)
        for field in world.history.fields
    )
    return FeatureSchema(
        categorical=categorical,
        dense=(*user_statistics(world), *ad_statistics(world)),
        history=History(fields=fields, length=history_length, as_of=world.history.as_of),
        tables=dict(world.tables),
        surfaces=world.surface_names,
        event_types=world.event_types,
        tasks=tuple(TaskSpec(head.name, head.primary, head.parent, head.surfaces) for head in world.heads),
        content=tuple(Content(entry.name, entry.width, _side(entry.name, shared)) for entry in world.embeddings),
    )


def _side(name: str, shared: set[str]) -> Side:
    return "request" if name in shared else "candidate"
