"""The first and last rows of log files as text, with what they say of their own shape: for a first world file only.

Nothing is decided here about what a column means (`features.sources.files.roles`). Ingest reads files by what the
world file says and guesses nothing.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from features.errors import WorldError
from features.sources.files.heads import DELIMITERS, format_of, opened, parquet_schema

HEAD_ROWS = 2000
TAIL_BYTES = 200_000
CANDIDATES = (",", "\t", ";", "|")
NUMBER = re.compile(r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$")
Row = dict[str, str | None]


@dataclass(frozen=True)
class Peek:
    """A sample of some files of one shape.

    Attributes:
        file: name or glob, below the common folder.
        format: `csv`, `tsv`, `jsonl` or `parquet`.
        options: what the world file must say of the format beside the suffix.
        columns: raw column -> texts, None where blank.
        types: raw column -> Arrow type; empty for text.
    """

    file: str
    format: str
    options: dict[str, Any]
    columns: dict[str, list[str | None]]
    types: dict[str, str]

    def values(self, column: str) -> list[str]:
        """Texts that are there."""
        return [value for value in self.columns[column] if value is not None]


def peeks(logs: Sequence[Path]) -> tuple[Path, list[Peek]]:
    """The folder that holds all files, and a sample of each kind of file: names that differ in digits only are one.

    Raises:
        WorldError: no files, or one that is empty or of no known format.
    """
    paths = sorted({path.resolve() for log in logs for path in _files(log)})
    if not paths:
        raise WorldError(
            f"no log files in {', '.join(map(str, logs))}; known are .csv, .tsv, .jsonl, .ndjson, .parquet"
        )
    folder = Path(*_common([path.parent.parts for path in paths]))
    kinds: dict[str, list[Path]] = {}
    for path in paths:
        kinds.setdefault(re.sub(r"\d+", "*", str(path.relative_to(folder))), []).append(path)
    found = []
    for pattern, members in kinds.items():
        name = pattern if len(members) > 1 else str(members[0].relative_to(folder))
        found.append(_peek(name, members))
    return folder, found


def _files(log: Path) -> list[Path]:
    if log.is_dir():
        return [path for path in log.rglob("*") if path.is_file() and format_of(path)]
    return [log]


def _common(parts: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    same = [names[0] for names in zip(*parts, strict=False) if len(set(names)) == 1]
    return tuple(same)


def _peek(name: str, paths: Sequence[Path]) -> Peek:
    kind, options = _format(paths[0])
    rows: list[Row] = []
    types: dict[str, str] = {}
    for path in dict.fromkeys((paths[0], paths[-1])):
        if kind == "parquet":
            types = {entry.name: str(entry.type) for entry in parquet_schema(path)}
            rows += _parquet_rows(path)
        elif kind == "jsonl":
            rows += [row for line in [*_head(path), *_tail(path)] if (row := _json_row(line)) is not None]
        else:
            rows += _csv_rows(path, options.get("delimiter") or DELIMITERS[kind], options)
    names = dict.fromkeys(column for row in rows for column in row)
    if not names:
        raise WorldError(f"{paths[0]} has no rows to guess from")
    return Peek(name, kind, options, {column: [row.get(column) for row in rows] for column in names}, types)


def _format(path: Path) -> tuple[str, dict[str, Any]]:
    """Format by suffix, else by the first line; options beside it."""
    kind = format_of(path)
    if kind in ("jsonl", "parquet"):
        return kind, {}
    lines = _head(path)
    if not lines:
        raise WorldError(f"{path} is empty")
    if kind is None and lines[0].lstrip().startswith("{"):
        return "jsonl", {"format": "jsonl"}
    delimiter = max(CANDIDATES, key=lines[0].count)
    options: dict[str, Any] = {}
    if kind is None:
        kind = "tsv" if delimiter == "\t" else "csv"
        options["format"] = kind
    if lines[0].count(delimiter) and delimiter != DELIMITERS[kind]:
        options["delimiter"] = delimiter
    first, *others = csv.reader(io.StringIO("".join(lines[:50])), delimiter=options.get("delimiter", DELIMITERS[kind]))
    if any(NUMBER.match(cell.strip()) or re.match(r"^\d{4}-\d{2}-\d{2}", cell) for cell in first) and others:
        options["names"] = [f"column_{at}" for at in range(1, len(first) + 1)]
    return kind, options


def _csv_rows(path: Path, delimiter: str, options: dict[str, Any]) -> list[Row]:
    # a whole reader over the head: a quoted value may hold a line break
    with opened(path) as stream:
        cells = list(islice(csv.reader(stream, delimiter=delimiter), HEAD_ROWS))
    names = options.get("names") or [name or f"column_{at}" for at, name in enumerate(cells.pop(0), 1)]
    cells += csv.reader(io.StringIO("".join(_tail(path))), delimiter=delimiter)
    return [
        {name: cell.strip() or None for name, cell in zip(names, row, strict=True)}
        for row in cells
        if len(row) == len(names)
    ]


def _head(path: Path) -> list[str]:
    with opened(path) as stream:
        return list(islice(stream, HEAD_ROWS))


def _tail(path: Path) -> list[str]:
    """Lines of the end of a large file; packed ones have no end to jump to."""
    if path.suffix == ".gz" or path.stat().st_size < 2 * TAIL_BYTES:
        return []
    with path.open("rb") as stream:
        stream.seek(-TAIL_BYTES, io.SEEK_END)
        return stream.read().decode("utf-8", "replace").splitlines(keepends=True)[1:]


def _json_row(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return {name: _text(value) for name, value in row.items()} if isinstance(row, dict) else None


def _parquet_rows(path: Path) -> list[Row]:
    file = pq.ParquetFile(path)
    ends = dict.fromkeys((0, file.num_row_groups - 1)) if file.num_row_groups else {}
    rows: list[Row] = []
    for at in ends:
        table = file.read_row_group(at)
        part = table.slice(0, HEAD_ROWS) if at == 0 else table.slice(max(table.num_rows - HEAD_ROWS, 0))
        texts = {name: _arrow_texts(part.column(name)) for name in part.column_names}
        rows += [{name: values[row] for name, values in texts.items()} for row in range(part.num_rows)]
    return rows


def _arrow_texts(column: Any) -> list[str | None]:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        # nanoseconds do not fit Python's datetime; here they need not
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return [_text(value) for value in column.to_pylist()]


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return json.dumps(value, default=str)
    return str(value).strip() or None


def distinct(values: Iterable[str]) -> list[str]:
    """Different values, in order of appearance."""
    return list(dict.fromkeys(values))
