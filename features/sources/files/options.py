"""What `source.options` of a log-file world may say, and whether it suits the rest of the world.

A table is one mapping or a list of them; a mapping names its files, what is done to their rows (`join`, `where`,
`slate`, `labels`) and which raw column each canonical one is read from. docs/worlds.md explains every key.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from features.errors import WorldError
from features.sources.canonical import TABLES, columns_of, history_columns
from features.sources.files.spelling import checked_spelling
from features.worlds.schema import Strict, World

REQUIRED = {
    "impressions": ("ad_id", "request_ts"),
    "outcomes": ("ad_id", "event_type", "event_ts"),
    "events": ("user_id", "ad_id", "event_type", "event_ts"),
    "users": ("user_id",),
    "ads": ("ad_id",),
}
TIMES = ("request_ts", "window_end", "event_ts", "arrival_ts", "known_from")
PLACE = "slate_position"
"""Raw column that `slate` adds: the place in the slate, from 1."""


def _listed(value: Any) -> Any:
    if value is None:
        return ()
    return value if isinstance(value, list | tuple) else (value,)


Texts = Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)]
"""One text or several; of raw columns that are read as one, joined by a blank for times and by `/` for the rest."""
Spelling = Annotated[str, BeforeValidator(checked_spelling)]


class Section(Strict):
    """A section in which YAML may write `1` where the text "1" is meant."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)


class Files(Section):
    """Some files of one shape."""

    file: str = Field(description="name or glob below `path`")
    format: Literal["csv", "tsv", "jsonl", "parquet"] | None = Field(
        default=None, description="default: by suffix (.csv, .tsv, .jsonl, .ndjson, .parquet, text also with .gz)"
    )
    delimiter: str | None = Field(default=None, min_length=1, description="CSV: instead of the format's own")
    quote: str = Field(default='"', max_length=1, description="CSV: around values; doubled inside; '' where none is")
    names: tuple[str, ...] = Field(default=(), description="CSV: columns of files without a header line")
    line_breaks: bool = Field(
        default=True, description="CSV: quoted values may hold line breaks; without, large files are read in pieces"
    )


class Join(Files):
    """Files whose columns are looked up by a key; a row without a partner keeps blanks."""

    by: dict[str, str] = Field(min_length=1, description="raw column of the row -> raw column of the joined file")
    columns: dict[str, str] = Field(min_length=1, description="name that the row gets -> raw column of the joined file")


class Label(Section):
    """When a row says that an event happened."""

    column: str | None = Field(default=None, description="1/0, true/false, yes/no; blank is no; or as the others say")
    at_least: float | None = Field(default=None, description="it is a yes when the column's number is not below this")
    holds: str | None = Field(default=None, description="... when the column's list holds the value of this column")
    at: str | None = Field(default=None, description="time of the event; without `column`, a time there is the yes")

    @model_validator(mode="after")
    def _says_when(self) -> "Label":
        if self.column is None and (self.at is None or self.at_least is not None or self.holds is not None):
            raise ValueError("a label needs `column`, or `at` alone")
        if self.at_least is not None and self.holds is not None:
            raise ValueError("a label has `at_least` or `holds`, not both")
        return self


def _label(value: Any) -> Any:
    return {"column": value} if isinstance(value, str) else value


class Mapping(Files):
    """One table's rows in some files."""

    columns: dict[str, Texts] = Field(description="canonical column -> raw column, or several read as one")
    constants: dict[str, str] = Field(default_factory=dict, description="raw columns that hold one value in each row")
    join: tuple[Join, ...] = ()
    where: dict[str, Texts] = Field(
        default_factory=dict, description="raw column -> values; other rows are no rows of this table"
    )
    slate: tuple[str, ...] = Field(default=(), description="raw columns with lists: a row for each item")
    labels: dict[str, Annotated[Label, BeforeValidator(_label)]] = Field(
        default_factory=dict, description="event type -> label: a row for each that is a yes"
    )
    recode: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="canonical column -> {raw value: value}; other values stay"
    )
    times: dict[str, Spelling] = Field(
        default_factory=dict, description="canonical column -> how its times are written"
    )
    separator: str = Field(default="|", min_length=1, description="between the values of a list that is no JSON array")

    @property
    def given(self) -> set[str]:
        """Canonical columns that the rows have in the end."""
        own = set(self.columns) | ({"event_type"} if self.labels else set())
        return own | ({"event_ts"} if self.labels and all(label.at for label in self.labels.values()) else set())


Part = Annotated[tuple[Mapping, ...], BeforeValidator(_listed)]


class Options(Section):
    """`source.options` of the adapter `files`."""

    path: str = Field(description="folder of the files")
    naive_times: Literal["utc", "local"] = Field(default="utc", description="what a time without an offset means")
    times: Spelling = Field(
        default="iso", description="iso; s, ms, us, ns, days or weeks since 1970 or `since DAY`; or a pattern: dd/MM/yy"
    )
    impressions: Part
    outcomes: Part
    events: Part = ()
    users: Part = ()
    ads: Part = ()

    def mapped(self) -> dict[str, tuple[Mapping, ...]]:
        """Table to mappings of those that are given."""
        return {table: getattr(self, table) for table in TABLES if getattr(self, table)}

    def spelling(self, mapping: Mapping, column: str) -> str:
        """How the times of a canonical column are written."""
        return mapping.times.get(column, self.times)


def place(options: Options, table: str, mapping: Mapping) -> str:
    """Where a mapping stands in the world file."""
    parts = getattr(options, table)
    return f"source.options.{table}" + (f".{parts.index(mapping)}" if len(parts) > 1 else "")


def check_mapping(world: World, options: Options) -> None:
    """Every mapped name is canonical, and everything that the world declares is mapped.

    Raises:
        WorldError: names the key.
    """
    for table, mappings in options.mapped().items():
        for mapping in mappings:
            _check(world, table, mapping, f"world {world.name}: {place(options, table, mapping)}")
    for table, entity in (("users", world.users), ("ads", world.ads)):
        if entity.attributes and table not in options.mapped():
            raise WorldError(f"world {world.name}: source.options.{table} is missing, but {table}.attributes needs it")


def _check(world: World, table: str, mapping: Mapping, where: str) -> None:
    known = mappable(table, world)
    for key, names in (("columns", mapping.columns), ("recode", mapping.recode), ("times", mapping.times)):
        for name in names:
            if name not in (mapping.columns if key != "columns" else known):
                of = f"column of {table}; known: {', '.join(known)}" if key == "columns" else "key of `columns`"
                raise WorldError(f"{where}.{key}: '{name}' is no {of}")
    for name in mapping.times:
        if name not in TIMES:
            raise WorldError(f"{where}.times: '{name}' holds no times; known: {', '.join(TIMES)}")
    if mapping.labels:
        _check_labels(world, table, mapping, where)
    for name in needed(table, world):
        if name not in mapping.given:
            raise WorldError(f"{where}.columns: map '{name}' to a raw column; the world needs it")


def _check_labels(world: World, table: str, mapping: Mapping, where: str) -> None:
    if table not in ("outcomes", "events"):
        raise WorldError(f"{where}.labels: only outcomes and events have labels")
    if "event_type" in mapping.columns:
        raise WorldError(f"{where}.labels: the labels say the event type; drop columns.event_type or labels")
    for name in mapping.labels:
        if name not in world.event_types:
            raise WorldError(f"{where}.labels: '{name}' is not in event_types ({', '.join(world.event_types)})")


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
