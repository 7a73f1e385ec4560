"""Which files a mapping means, and what their heads say: names and types of columns, read without Spark.

Files of one table may differ in column order, in columns and, in Parquet, in types: they are grouped by what their
heads say, and each group is read by name. A column that a file lacks is blank in its rows, unless no row could be good
without it.
"""

import csv
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from features.errors import WorldError
from features.sources.files.options import PLACE, Files, Mapping

FORMATS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
DELIMITERS = {"csv": ",", "tsv": "\t"}
FLOATS = ("float", "double", "halffloat")
Head = tuple[tuple[str, str], ...]
"""(raw column, type) in file order; the type is '' for text formats."""


@dataclass(frozen=True)
class Group:
    """Files of one format whose heads agree."""

    format: str
    head: Head
    paths: tuple[Path, ...]

    @property
    def names(self) -> list[str]:
        """Raw columns in file order."""
        return [name for name, _ in self.head]


def located(folder: str, files: Files, wanted: set[str], where: str) -> list[Group]:
    """The files, grouped.

    Args:
        folder: the world's `path`.
        files: what the world file says of them.
        wanted: raw columns that are read: JSON lines are searched until all were seen.
        where: place in the world file, for errors.

    Raises:
        WorldError: no such file, an unknown suffix, a file without a head, or of other columns than `names`.
    """
    paths = sorted(path for path in Path(folder).glob(files.file) if path.is_file())
    if not paths:
        raise WorldError(f"{where}.file: no file {Path(folder) / files.file}")
    groups: dict[tuple[str, Head], list[Path]] = {}
    for path in paths:
        kind = files.format or format_of(path)
        if kind is None:
            raise WorldError(f"{where}.file: {path.name} ends in none of {', '.join(FORMATS)}; say its `format`")
        groups.setdefault((kind, _head(path, kind, files, wanted, where)), []).append(path)
    return [Group(kind, head, tuple(members)) for (kind, head), members in groups.items()]


def format_of(path: Path) -> str | None:
    """Format by suffix, `.gz` apart; None when it is none that is known."""
    return FORMATS.get(Path(path.name.removesuffix(".gz")).suffix)


def opened(path: Path) -> IO[str]:
    """A text file, unpacked, without a byte-order mark."""
    opener = gzip.open if path.suffix == ".gz" else Path.open
    return opener(path, "rt", newline="", encoding="utf-8-sig", errors="replace")


def parquet_schema(path: Path) -> pa.Schema:
    """Columns and Arrow types of a Parquet file.

    Raises:
        WorldError: it is none.
    """
    try:
        return pq.read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise WorldError(f"{path} cannot be read as Parquet: {' '.join(str(error).split())}") from None


def delimiter_of(files: Files, kind: str) -> str:
    """Between the values of a line."""
    return files.delimiter or DELIMITERS[kind]


def check_columns(groups: Sequence[Group], columns: dict[str, tuple[str, ...]], required: set[str], where: str) -> None:
    """Each column is in some file, a required one in each; ids are no floating-point numbers.

    Args:
        groups: the files.
        columns: key in the world file -> raw columns read from these files.
        required: keys without which no row is good.
        where: place in the world file.

    Raises:
        WorldError: names the key, the file and its columns.
    """
    # keys of JSON lines are absent where they have no value
    in_lines = {name for group in groups if group.format == "jsonl" for name in group.names}
    everywhere = {name for group in groups for name in group.names}
    empty = [group for group in groups if group.format == "jsonl" and not in_lines]
    for group in groups:
        if group in empty:
            continue
        have = in_lines if group.format == "jsonl" else set(group.names)
        for key, raws in columns.items():
            for raw in raws:
                if raw not in (have if key in required else everywhere) and not (empty and key not in required):
                    known = ", ".join(sorted(have) if group.format == "jsonl" else group.names)
                    raise WorldError(f"{where}.{key}: {group.paths[0]} has no column '{raw}'; it has {known}")
            _check_types(group, key, raws, where)


def _check_types(group: Group, key: str, raws: Sequence[str], where: str) -> None:
    types = dict(group.head)
    for raw in raws:
        if key.endswith("_id") and types.get(raw) in FLOATS:
            raise WorldError(
                f"{where}.{key}: column '{raw}' of {group.paths[0]} is floating point, "
                "which damages ids above 2^53; write it as int64 or text"
            )


def raw_columns(mapping: Mapping) -> dict[str, tuple[str, ...]]:
    """Key in the world file -> raw columns that the mapping's own files must have."""
    made = {*mapping.constants, *(name for join in mapping.join for name in join.columns)}
    made |= {PLACE} if mapping.slate else set()
    used: dict[str, tuple[str, ...]] = {f"columns.{name}": raws for name, raws in mapping.columns.items()}
    used |= {"where": tuple(mapping.where), "slate": mapping.slate}
    used |= {f"join.{at}.by": tuple(join.by) for at, join in enumerate(mapping.join)}
    for name, label in mapping.labels.items():
        used[f"labels.{name}"] = tuple(raw for raw in (label.column, label.holds, label.at) if raw is not None)
    left = {key: tuple(raw for raw in raws if raw not in made) for key, raws in used.items()}
    return {key: raws for key, raws in left.items() if raws}


def _head(path: Path, kind: str, files: Files, wanted: set[str], where: str) -> Head:
    if kind == "parquet":
        return tuple((entry.name, str(entry.type)) for entry in parquet_schema(path))
    if kind == "jsonl":
        return tuple((name, "") for name in _json_keys(path, wanted))
    return tuple((name, "") for name in _csv_names(path, kind, files, where))


def _csv_names(path: Path, kind: str, files: Files, where: str) -> list[str]:
    with opened(path) as stream:
        first = next(csv.reader(stream, delimiter=delimiter_of(files, kind), **_quoting(files)), None)
    if files.names:
        if first is not None and len(first) != len(files.names):
            raise WorldError(f"{where}.names: {len(files.names)} names, but {path} has {len(first)} columns")
        return list(files.names)
    if not first:
        raise WorldError(f"{where}.file: {path} has no header line; give the columns' names as `names`")
    names = [name or f"column_{at}" for at, name in enumerate(first, 1)]
    if len(set(names)) < len(names):
        raise WorldError(f"{where}.file: {path} names a column twice: {', '.join(names)}")
    return names


def _quoting(files: Files) -> dict:
    return {"quotechar": files.quote} if files.quote else {"quoting": csv.QUOTE_NONE}


def _json_keys(path: Path, wanted: set[str]) -> list[str]:
    """Keys in the file, sorted; reading stops when all wanted ones were seen."""
    seen: set[str] = set()
    with opened(path) as stream:
        for line in stream:
            try:
                row = json.loads(line)
            except ValueError:
                continue
            seen |= set(row) if isinstance(row, dict) else set()
            if wanted and wanted <= seen:
                # the same head for all files that have what is mapped: one group
                return sorted(wanted)
    return sorted(seen)
