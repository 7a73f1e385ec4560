"""Content hash of a day's rows: the same for the same set of rows in any order, and no other.

A row hashes to 64 bits over all its columns and their null flags (Spark's `xxhash64` skips nulls, so without
the flags a value that moves to the next column would go unseen). A day is the count, the sum and the exclusive-
or of its rows' hashes, under the columns' names and types. Wall-clock columns are in no table, hence in no
hash.
"""

import hashlib
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def content_hashes(frame: "DataFrame", partition: str) -> dict[str, tuple[str, int]]:
    """Hash and row count of every day in a frame.

    Args:
        frame: rows of one table, `partition` among its columns.
        partition: name of the day column; it is not part of the hash, since it names the day.

    Returns:
        day -> (32 hex digits, number of rows); days without rows are absent.
    """
    columns = sorted(name for name in frame.columns if name != partition)
    parts = [part for name in columns for part in (F.col(name), F.col(name).isNull())]
    row = F.xxhash64(*parts)
    grouped = frame.groupBy(partition).agg(
        F.count(F.lit(1)).alias("rows"),
        F.sum(row.cast("decimal(20,0)")).cast("string").alias("total"),
        F.bit_xor(row).alias("parity"),
    )
    signature = _signature(frame, columns)
    return {
        found[partition]: (_digest(signature, found["rows"], found["total"], found["parity"]), found["rows"])
        for found in grouped.collect()
    }


def empty_hash(frame: "DataFrame", partition: str) -> str:
    """Hash of a day without rows under a frame's columns."""
    columns = sorted(name for name in frame.columns if name != partition)
    return _digest(_signature(frame, columns), 0, "0", 0)


def _signature(frame: "DataFrame", columns: list[str]) -> str:
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    return ",".join(f"{name}:{types[name]}" for name in columns)


def _digest(signature: str, rows: int, total: str, parity: int) -> str:
    return hashlib.sha256(f"{signature}|{rows}|{total}|{parity}".encode()).hexdigest()[:32]
