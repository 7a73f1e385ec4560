"""What `source.options` of a log-file world may say, and whether it suits the rest of the world."""

from typing import Literal

from pydantic import Field

from features.errors import WorldError
from features.sources.canonical import columns_of, history_columns
from features.worlds.schema import Strict, World

REQUIRED = {
    "impressions": ("ad_id", "request_ts"),
    "outcomes": ("ad_id", "event_type", "event_ts"),
    "events": ("user_id", "ad_id", "event_type", "event_ts"),
    "users": ("user_id",),
    "ads": ("ad_id",),
}
TIMES = ("request_ts", "window_end", "event_ts", "arrival_ts", "known_from")


class Mapping(Strict):
    """One table's file or files."""

    file: str = Field(description="name or glob below `path`; ends in .csv, .tsv, .jsonl, .ndjson or .parquet")
    columns: dict[str, str] = Field(description="canonical column -> raw column")


class Options(Strict):
    """`source.options` of the adapter `files`."""

    path: str = Field(description="folder of the files")
    naive_times: Literal["utc", "local"] = Field(default="utc", description="what a time without an offset means")
    epoch: Literal["s", "ms", "us", "ns"] | None = Field(
        default=None, description="times are numbers since 1970 in this unit, not ISO 8601"
    )
    impressions: Mapping
    outcomes: Mapping
    events: Mapping | None = None
    users: Mapping | None = None
    ads: Mapping | None = None

    def mapped(self) -> dict[str, Mapping]:
        """Table to mapping of those that are given."""
        given = {table: getattr(self, table) for table in REQUIRED}
        return {table: mapping for table, mapping in given.items() if mapping is not None}


def check_mapping(world: World, options: Options) -> None:
    """Every mapped name is canonical, and everything that the world declares is mapped.

    Raises:
        WorldError: names the key.
    """
    for table, mapping in options.mapped().items():
        where = f"world {world.name}: source.options.{table}.columns"
        known = mappable(table, world)
        for name in mapping.columns:
            if name not in known:
                raise WorldError(f"{where}: '{name}' is no column of {table}; known: {', '.join(known)}")
        for name in needed(table, world):
            if name not in mapping.columns:
                raise WorldError(f"{where}: map '{name}' to a raw column; the world needs it")
    for table, entity in (("users", world.users), ("ads", world.ads)):
        if entity.attributes and table not in options.mapped():
            raise WorldError(f"world {world.name}: source.options.{table} is missing, but {table}.attributes needs it")


def mappable(table: str, world: World) -> list[str]:
    """Canonical names that a file may give."""
    derived = {"ds", "keep_rate", "event_timestamp", "available_ts"}
    own = [name for name in columns_of(table, world) if name not in derived]
    more = {
        "outcomes": ["arrival_ts"],
        "events": ["arrival_ts"],
        "users": ["known_from"],
        "ads": ["known_from"],
    }
    return own + more.get(table, [])


def needed(table: str, world: World) -> list[str]:
    """Canonical names that a file must give for this world."""
    declared: dict[str, list[str]] = {
        "impressions": [
            *world.request_columns.values(),
            *(["surface"] if len(world.surfaces) > 1 else []),
            *_window(world),
        ],
        "outcomes": sorted({key for task in world.tasks for key in task.match}),
        "events": history_columns(world),
        "users": list(world.users.attributes),
        "ads": list(world.ads.attributes),
    }
    return [*REQUIRED[table], *declared[table]]


def _window(world: World) -> list[str]:
    return sorted({task.window_column for task in world.tasks if task.window_column is not None})
