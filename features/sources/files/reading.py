"""Raw files as text columns under canonical names: one shape for all formats, so that the rules exist once.

Adds `_row` (the mapped raw columns as JSON), `_source` (file name) and `_broken` (the line could not be
split). Files of one table may differ in column order and, in Parquet, in types: they are grouped by what
their heads say, and each group is read by name.
"""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.sql import functions as F

from features.errors import WorldError
from features.sources.files.options import Mapping, Options
from features.worlds.schema import World

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

DELIMITERS = {".csv": ",", ".tsv": "\t"}
LINES = (".jsonl", ".ndjson")
CORRUPT = "_corrupt"
NANOS_AS_LONG = "spark.sql.legacy.parquet.nanosAsLong"
Head = tuple[tuple[str, str], ...]
"""(raw column, type) in file order; the type is '' for text formats."""


@dataclass(frozen=True)
class Group:
    """Files of one suffix whose heads agree."""

    suffix: str
    head: Head
    paths: tuple[Path, ...]


def located(world: World, options: Options, table: str, mapping: Mapping) -> list[Group]:
    """Files of a table, grouped; every mapped column is in them.

    Raises:
        WorldError: no such file, an unknown suffix, a file without a head, or a mapped column that is not
            there.
    """
    where = f"world {world.name}: source.options.{table}"
    paths = sorted(path for path in Path(options.path).glob(mapping.file) if path.is_file())
    if not paths:
        raise WorldError(f"{where}.file: no file {Path(options.path) / mapping.file}")
    groups: dict[tuple[str, Head], list[Path]] = {}
    for path in paths:
        groups.setdefault((path.suffix, _head(path, where, mapping)), []).append(path)
    found = [Group(suffix, head, tuple(members)) for (suffix, head), members in groups.items()]
    _check_columns(found, mapping, where)
    return found


def read_text(spark: "SparkSession", world: World, options: Options, table: str, mapping: Mapping) -> "DataFrame":
    """All rows of a table's files: mapped canonical columns as STRING, `_row`, `_source`, `_broken`.

    Raises:
        WorldError: as `located`.
    """
    frames = [_read(spark, group, mapping) for group in located(world, options, table, mapping)]
    frame = frames[0]
    for other in frames[1:]:
        frame = frame.unionByName(other)
    return frame


# ---- heads


def _head(path: Path, where: str, mapping: Mapping) -> Head:
    if path.suffix in DELIMITERS:
        return _csv_head(path, where)
    if path.suffix in LINES:
        return tuple((name, "") for name in _json_keys(path, set(mapping.columns.values())))
    if path.suffix == ".parquet":
        return tuple((entry.name, str(entry.type)) for entry in pq.read_schema(path))
    raise WorldError(f"{where}.file: {path.name} ends in none of .csv, .tsv, .jsonl, .ndjson, .parquet")


def _csv_head(path: Path, where: str) -> Head:
    # utf-8-sig: a byte-order mark is no part of the first column's name
    with path.open(newline="", encoding="utf-8-sig") as stream:
        names = next(csv.reader(stream, delimiter=DELIMITERS[path.suffix]), None)
    if not names:
        raise WorldError(f"{where}.file: {path} has no header line")
    if len(set(names)) < len(names):
        raise WorldError(f"{where}.file: {path} names a column twice: {', '.join(names)}")
    return tuple((name, "") for name in names)


def _json_keys(path: Path, wanted: set[str]) -> list[str]:
    """Keys in the file, sorted; reading stops when all wanted ones were seen."""
    seen: set[str] = set()
    with path.open(encoding="utf-8-sig") as stream:
        for line in stream:
            try:
                row = json.loads(line)
            except ValueError:
                continue
            seen |= set(row) if isinstance(row, dict) else set()
            if wanted <= seen:
                # the same head for all files that have what is mapped: one group
                return sorted(wanted)
    return sorted(seen)


def _check_columns(groups: Sequence[Group], mapping: Mapping, where: str) -> None:
    """A CSV or Parquet column must be in each file; a JSON key may be absent from some, not from all."""
    in_lines = {name for group in groups if group.suffix in LINES for name, _ in group.head}
    for group in groups:
        names = [name for name, _ in group.head]
        if group.suffix in LINES:
            names = sorted(in_lines)
            if not names:
                continue
        for canonical, raw in mapping.columns.items():
            if raw not in names:
                raise WorldError(
                    f"{where}.columns.{canonical}: {group.paths[0]} has no column '{raw}'; it has {', '.join(names)}"
                )
        _check_types(group, mapping, where)


def _check_types(group: Group, mapping: Mapping, where: str) -> None:
    types = dict(group.head)
    for canonical, raw in mapping.columns.items():
        if canonical.endswith("_id") and types.get(raw) in ("float", "double", "halffloat"):
            raise WorldError(
                f"{where}.columns.{canonical}: column '{raw}' of {group.paths[0]} is floating point, "
                "which damages ids above 2^53; write it as int64 or text"
            )


# ---- reading


def _read(spark: "SparkSession", group: Group, mapping: Mapping) -> "DataFrame":
    paths = [str(path) for path in group.paths]
    types = dict(group.head)
    if group.suffix == ".parquet":
        if any(kind.startswith("timestamp[ns") for kind in types.values()):
            # Spark refuses nanoseconds otherwise, naming neither file nor column
            spark.conf.set(NANOS_AS_LONG, "true")
        frame = spark.read.parquet(*paths).withColumn(CORRUPT, F.lit(None).cast("string"))
    elif group.suffix in LINES:
        names = sorted(set(mapping.columns.values()))
        frame = spark.read.schema(_text_schema(names)).json(paths, columnNameOfCorruptRecord=CORRUPT)
    else:
        frame = spark.read.schema(_text_schema([name for name, _ in group.head])).csv(
            paths, header=True, sep=DELIMITERS[group.suffix], escape='"', columnNameOfCorruptRecord=CORRUPT
        )
    return _canonical(frame, mapping, types)


def _text_schema(names: Sequence[str]) -> str:
    return ", ".join(f"{_quoted(name)} string" for name in [*names, CORRUPT])


def _canonical(frame: "DataFrame", mapping: Mapping, types: dict[str, str]) -> "DataFrame":
    texts = {raw: _as_text(raw, types.get(raw, "")) for raw in mapping.columns.values()}
    broken = F.col(CORRUPT).isNotNull()
    row = F.to_json(F.struct(*(text.alias(raw) for raw, text in texts.items())))
    return frame.select(
        *(texts[raw].alias(canonical) for canonical, raw in mapping.columns.items()),
        F.when(broken, F.to_json(F.struct(F.col(CORRUPT).alias("line")))).otherwise(row).alias("_row"),
        F.col("_metadata.file_name").alias("_source"),
        broken.alias("_broken"),
    )


def _as_text(raw: str, kind: str) -> "Column":
    """A raw column as text; instants with an offset, wall clocks without, nanoseconds cut to microseconds."""
    column = F.col(_quoted(raw))
    if kind.startswith(("list", "large_list", "fixed_size_list")):
        return F.to_json(column)
    if not kind.startswith("timestamp"):
        return column.cast("string")
    if kind.startswith("timestamp[ns"):
        # in integers: as a double, a count of nanoseconds is off by hundreds
        column = F.timestamp_micros(F.expr(f"({_quoted(raw)} - pmod({_quoted(raw)}, 1000)) div 1000"))
    return F.concat(column.cast("string"), F.lit("Z" if "tz=" in kind else ""))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
