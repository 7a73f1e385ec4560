"""Parquet to numpy: columns by name with their missing marks, and histories as one store."""

from collections.abc import Mapping, Sequence
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from features.errors import GemlineError
from features.transform.columns import Column, of_flat
from features.transform.histories import HistoryStore
from training.plan import DayFiles

TEXT = frozenset({"surface", "task", "ds"})
"""Columns that stay empty text arrays when a day has no files."""


def read_columns(files: DayFiles, names: Sequence[str], table: str, day: str) -> dict[str, Column]:
    """The named columns of a day's files, one after another; instants become int64 microseconds.

    Raises:
        GemlineError: a file cannot be read or lacks a column.
    """
    parts = [_read(path, names, table, day) for path in files.paths]
    if not parts:
        return {name: _empty(name) for name in names}
    merged = pa.concat_tables(parts)
    return {name: _column(merged.column(name)) for name in names}


def read_histories(days: Mapping[str, DayFiles], fields: Sequence[str]) -> HistoryStore:
    """All days of `user_history` as one store.

    Args:
        days: files by day of arrival.
        fields: history columns to keep.

    Raises:
        GemlineError: a file cannot be read, lacks a column, or its arrays differ in length.
    """
    names = ["user_id", "event_us", "event_type", *fields]
    parts: list[dict[str, Column]] = []
    for day in sorted(days):
        for path in days[day].paths:
            parts.append(_flat_history(_read(path, names, "user_history", day), fields, day, path))
    if not parts:
        nothing = np.zeros(0, dtype=np.int64)
        return HistoryStore.from_arrays(nothing, nothing, nothing, nothing, dict.fromkeys(fields, nothing))
    joined = {
        name: Column(
            np.concatenate([part[name].values for part in parts]),
            np.concatenate([part[name].missing for part in parts]),
        )
        for name in parts[0]
    }
    return HistoryStore.from_arrays(
        joined["user_id"].values,
        joined["day"].values,
        joined["event_us"].values,
        joined["event_type"].values,
        {name: joined[name] for name in fields},
    )


def _read(path: str, names: Sequence[str], table: str, day: str) -> pa.Table:
    try:
        # ParquetFile, not a data set: the partition folder in the path must not become a column
        with pq.ParquetFile(path) as file:
            missing = sorted(set(names) - set(file.schema_arrow.names))
            if missing:
                raise GemlineError(
                    f"{table} of {day}: {path} has no columns {missing}; the schema and the table come from "
                    "different worlds, so publish that day again"
                )
            return file.read(columns=list(names))
    except (OSError, pa.ArrowException) as error:
        raise GemlineError(
            f"{table} of {day}: cannot read {path} ({error}); write the plan anew from the newest version"
        ) from error


def _column(data: pa.ChunkedArray) -> Column:
    array = data.combine_chunks()
    missing = np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        items = _column(pa.chunked_array([array.flatten()]))
        lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        return of_flat(items.values, items.missing, lengths.astype(np.int64))
    if pa.types.is_timestamp(array.type):
        # Spark may write instants as nanoseconds or microseconds
        array = array.cast(pa.timestamp("us", tz=array.type.tz), safe=False).cast(pa.int64())
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return Column(array.to_numpy(zero_copy_only=False), missing)
    # an exact 64-bit id must not pass through a float on its way around a null
    return Column(array.fill_null(0).to_numpy(zero_copy_only=False), missing)


def _empty(name: str) -> Column:
    return Column(np.zeros(0, dtype=object if name in TEXT else np.int64), np.zeros(0, dtype=bool))


def _flat_history(table: pa.Table, fields: Sequence[str], day: str, path: str) -> dict[str, Column]:
    owner = pc.list_parent_indices(table.column("event_us").combine_chunks()).to_numpy(zero_copy_only=False)
    users = _column(table.column("user_id")).values[owner]
    flat = {"user_id": users, "day": np.full(len(users), date.fromisoformat(day).toordinal())}
    columns = {name: Column(values, np.zeros(len(users), dtype=bool)) for name, values in flat.items()}
    for name in ("event_us", "event_type", *fields):
        column = _column(pa.chunked_array([table.column(name).combine_chunks().flatten()]))
        if len(column.values) != len(users):
            raise GemlineError(
                f"user_history of {day}: in {path} the array '{name}' has {len(column.values)} entries and "
                f"'event_us' {len(users)}; publish that day again"
            )
        columns[name] = column
    return columns
