"""Rows that a source refused, kept by table with the rule and the file that they came from."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PREFIX = "quarantine_"


@dataclass(frozen=True, order=True)
class Refused:
    """How many rows of a table and day one rule refused from one file.

    Attributes:
        table: the table that they would have gone to.
        ds: the day.
        rule: name of the rule.
        source: file that they came from.
        rows: how many.
    """

    table: str
    ds: str
    rule: str
    source: str
    rows: int


def keep(folder: Path, refused: "DataFrame", days: Sequence[str]) -> list[Refused]:
    """Keep refused rows in `quarantine_<table>`, replacing those of the same days; the writer lock is held.

    Args:
        folder: the world's tables.
        refused: columns ds, table, rule, source, row.
        days: all days that were extracted, so that a mended day leaves its quarantine empty.

    Returns:
        Counts, largest first.
    """
    rows = refused.persist()
    try:
        counts = _counted(rows)
        kept = {path.name.removeprefix(PREFIX) for path in folder.glob(f"{PREFIX}*")}
        for table in sorted(kept | {count.table for count in counts}):
            target = folder / f"{PREFIX}{table}"
            writer = rows.where(rows["table"] == table).coalesce(1).write.format("delta").mode("overwrite")
            if target.exists():
                listed = ", ".join(f"'{ds}'" for ds in days)
                writer = writer.option("replaceWhere", f"ds IN ({listed})")
            writer.partitionBy("ds").save(str(target))
    finally:
        rows.unpersist()
    return counts


def of_day(spark: "SparkSession", folder: Path, ds: str) -> list[Refused]:
    """Counts of a day over all tables, largest first."""
    found: list[Refused] = []
    for path in sorted(folder.glob(f"{PREFIX}*")):
        rows = spark.read.format("delta").load(str(path))
        found += _counted(rows.where(rows["ds"] == ds))
    return sorted(found, key=_largest_first)


def _counted(rows: "DataFrame") -> list[Refused]:
    found = rows.groupBy("table", "ds", "rule", "source").count().collect()
    counts = [Refused(row["table"], row["ds"], row["rule"], row["source"], row["count"]) for row in found]
    return sorted(counts, key=_largest_first)


def _largest_first(count: Refused) -> tuple[int, Refused]:
    return -count.rows, count
