"""What a sample of a log looks like through its world file; `gemline world check` prints it.

Of each column its mapping, type, range and blanks; of each rule the rows that it would refuse, with one of them.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from features.ids import PLAIN_INTEGER
from features.sources.base import parse_options
from features.sources.canonical import columns_of
from features.sources.files import files_of, read_tables
from features.sources.files.heads import raw_columns
from features.sources.files.options import Mapping, Options
from features.worlds.schema import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN = 6
"""Texts that are listed rather than counted."""
MOST_REFUSED = 0.5
"""A larger share of refused rows says that the mapping is wrong, not the log."""


@dataclass(frozen=True)
class ColumnSurvey:
    """A canonical column, over the good rows of the sample.

    Attributes:
        name: canonical column.
        source: raw column or columns, or how the value is made.
        kind: type in words.
        span: range, or the values.
        blank: share of rows without a value.
        values: different values.
    """

    name: str
    source: str
    kind: str
    span: str
    blank: float
    values: int


@dataclass(frozen=True)
class TableSurvey:
    """A table's sample.

    Attributes:
        table: canonical table.
        files: number of its files.
        rows: rows read.
        good: rows that no rule refuses.
        columns: mapped columns, then those that are made.
        refused: (rule, file, rows, one row as JSON), most rows first.
        days: day -> good rows.
        unread: raw columns that nothing reads.
    """

    table: str
    files: int
    rows: int
    good: int
    columns: tuple[ColumnSurvey, ...]
    refused: tuple[tuple[str, str, int, str], ...]
    days: dict[str, int]
    unread: tuple[str, ...]


def survey(spark: "SparkSession", world: World, most: int) -> list[TableSurvey]:
    """Read about `most` rows of each mapping's files.

    Raises:
        WorldError: the options do not fit the world or the files.
    """
    options = parse_options(Options, world)
    found = []
    for table, rows in read_tables(spark, world, most).items():
        mappings = options.mapped()[table]
        collected = [row.asDict() for row in rows.frame.collect()]
        groups = [group for mapping in mappings for group in files_of(world, options, table, mapping)]
        found.append(_table(table, world, mappings, collected, len({path for group in groups for path in group.paths})))
    return [_with_unread(entry, world, options) for entry in found]


def _table(
    table: str, world: World, mappings: Sequence[Mapping], rows: list[dict[str, Any]], files: int
) -> TableSurvey:
    good = [row for row in rows if row["_rule"] is None]
    kinds = columns_of(table, world) | dict.fromkeys(("arrival_ts", "known_from"), "timestamp")
    names = [name for name in kinds if any(name in mapping.given for mapping in mappings)]
    names += [
        name for name in ("position", "surface") if name in kinds and name not in names and table == "impressions"
    ]
    raws = [json.loads(row["_row"]) for row in good]
    columns = tuple(_column(name, kinds[name], mappings, good, raws) for name in names)
    noted = [(row["_rule"] or row["_cut"], row["_source"], row["_row"]) for row in rows]
    counts = Counter((rule, source) for rule, source, _ in noted if rule is not None)
    example = {(rule, source): row for rule, source, row in reversed(noted)}
    refused = tuple((*key, count, example[key]) for key, count in counts.most_common())
    days = Counter(row["ds"] for row in good)
    return TableSurvey(table, files, len(rows), len(good), columns, refused, dict(sorted(days.items())), ())


def _with_unread(found: TableSurvey, world: World, options: Options) -> TableSurvey:
    """Raw columns of the table's files that no mapping of any table reads from the same files."""
    have: dict[str, None] = {}
    for mapping in options.mapped()[found.table]:
        have |= dict.fromkeys(name for group in files_of(world, options, found.table, mapping) for name in group.names)
        same = [other for parts in options.mapped().values() for other in parts if other.file == mapping.file]
        for other in same:
            for raw in {raw for raws in raw_columns(other).values() for raw in raws}:
                have.pop(raw, None)
    return replace(found, unread=tuple(have))


def _column(
    name: str, kind: str, mappings: Sequence[Mapping], good: Sequence[dict[str, Any]], raws: Sequence[dict[str, str]]
) -> ColumnSurvey:
    sources = {" + ".join(mapping.columns[name]): None for mapping in mappings if name in mapping.columns}
    at = "event_timestamp" if name == "known_from" else name
    values = [row.get(at) for row in good]
    present = [value for value in values if value is not None]
    texts = [raw[next(iter(sources))] for raw in raws if next(iter(sources), "") in raw]
    blank = 1 - len(present) / len(values) if values else 0.0
    different = len({tuple(value) if isinstance(value, list) else value for value in present})
    source = ", ".join(sources) or ("labels" if name in ("event_type", "event_ts") else "made")
    return ColumnSurvey(name, source, _kind(kind, texts), _span(kind, present), blank, different)


def _kind(kind: str, texts: Sequence[str]) -> str:
    words = {"timestamp": "time", "string": "text", "array<bigint>": "list of ids", "array<float>": "vector"}
    if kind != "bigint":
        return words.get(kind, "number")
    integers = sum(re.match(PLAIN_INTEGER, text.strip()) is not None for text in texts)
    if not texts:
        return "id"
    return "id (integers)" if integers == len(texts) else "id (hashed text)" if not integers else "id (mixed)"


def _span(kind: str, present: Sequence[Any]) -> str:
    if not present:
        return "-"
    if kind == "bigint":
        return f"{len(set(present))} different"
    if kind.startswith("array"):
        sizes = [len(value) for value in present]
        return f"{min(sizes)} to {max(sizes)} values"
    if kind == "string":
        return _texts(present)
    return f"{min(present)} to {max(present)}"


def _texts(present: Iterable[str]) -> str:
    counts = Counter(present)
    listed = ", ".join(text for text, _ in counts.most_common(SHOWN))
    return listed if len(counts) <= SHOWN else f"{len(counts)} different: {listed}, ..."


def faults(world: World, tables: Sequence[TableSurvey]) -> tuple[list[str], list[str]]:
    """Errors (the world cannot run on this log) and warnings (look at them)."""
    errors, warnings = [], []
    for found in tables:
        if found.rows == 0 and found.table == "impressions":
            errors.append("impressions: no rows")
        elif found.rows == 0:
            warnings.append(f"{found.table}: no rows in the sample")
        elif found.rows - found.good > MOST_REFUSED * found.rows:
            errors.append(
                f"{found.table}: {found.rows - found.good} of {found.rows} rows are refused, "
                f"most of them by '{found.refused[0][0]}'; look at the mapping"
            )
        elif found.refused:
            warnings.append(f"{found.table}: {sum(count for *_, count, _ in found.refused)} rows refused or cut")
        warnings += [
            f"{found.table}.{column.name}: blank in every row" for column in found.columns if column.blank == 1
        ]
    errors += _outside(world, tables)
    return errors, warnings + _unseen(world, tables) + _crowded(world, tables)


def _outside(world: World, tables: Sequence[TableSurvey]) -> list[str]:
    """Impressions of days that the world does not have are never read: none at all is no world."""
    days = next(found.days for found in tables if found.table == "impressions")
    last = world.last_day or "9999-12-31"
    if days and not any(world.first_day <= ds <= last for ds in days):
        return [
            f"impressions: the sample's days, {min(days)} to {max(days)}, all lie outside first_day {world.first_day} "
            f"to last_day {world.last_day}"
        ]
    return []


def _unseen(world: World, tables: Sequence[TableSurvey]) -> list[str]:
    """Days outside the world, and surfaces and events that it declares and the sample lacks."""
    found = {entry.table: entry for entry in tables}
    warnings = []
    days = found["impressions"].days
    last = world.last_day or "9999-12-31"
    outside = {ds: rows for ds, rows in days.items() if not world.first_day <= ds <= last}
    if outside and len(outside) < len(days):
        rows = sum(outside.values())
        warnings.append(f"impressions: {rows} rows of days outside the world, such as {min(outside)}, are never read")
    for table, column, wanted in (
        ("impressions", "surface", world.surface_names),
        ("outcomes", "event_type", tuple(task.event for task in world.tasks)),
    ):
        seen = next((entry.span for entry in found[table].columns if entry.name == column), "")
        for name in dict.fromkeys(wanted):
            if found[table].good and not re.search(rf"\b{re.escape(name)}\b", seen):
                warnings.append(f"{table}.{column}: '{name}' is declared, but not in the sample")
    return warnings


def _crowded(world: World, tables: Sequence[TableSurvey]) -> list[str]:
    """Embedding tables with fewer rows than a column has values in the sample alone."""
    sizes = {feature.name: world.tables[feature.table] for feature in world.categorical}
    return [
        f"{found.table}.{column.name}: {column.values} values in the sample, "
        f"but its embedding table has {sizes[column.name]} rows"
        for found in tables
        if found.table != "events"
        for column in found.columns
        if column.name in sizes and column.kind != "list of ids" and column.values > sizes[column.name]
    ]
