"""An append-only Delta table of small records: the form of both ledgers."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Record = TypeVar("Record")
SPARK_TYPES = {str: "STRING", int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN"}


class AppendLog(Generic[Record]):
    """Records of one frozen dataclass, oldest first; the caller holds the writer lock while appending."""

    def __init__(self, spark: "SparkSession", folder: Path, record: type[Record]) -> None:
        """Open the log at `folder`, which need not exist yet; `record` has fields of str, int, float and bool."""
        self._spark = spark
        self._path = folder
        self._record = record
        self._seen: tuple[str, list[Record]] = ("", [])

    def rows(self) -> list[Record]:
        """All records; read again only when another commit stands in the Delta log."""
        newest = self._newest_commit()
        if newest != self._seen[0]:
            frame = self._spark.read.format("delta").load(str(self._path)).orderBy("entry")
            self._seen = (newest, [self._read(row.asDict()) for row in frame.collect()])
        return self._seen[1]

    def append(self, records: Sequence[Record]) -> None:
        """Add records in one commit; the wall clock goes beside them, for audit only."""
        if not records:
            return
        known = self.rows()
        now = datetime.now(UTC)
        rows: list[dict[str, Any]] = [
            {"entry": len(known) + offset, **asdict(record), "written_at": now}  # type: ignore[call-overload]
            for offset, record in enumerate(records)
        ]
        frame = self._spark.createDataFrame(rows, self._ddl()).coalesce(1)
        frame.write.format("delta").mode("append").option("mergeSchema", "true").save(str(self._path))
        self._seen = (self._newest_commit(), [*known, *records])

    def _read(self, row: dict[str, Any]) -> Record:
        """A record; fields that it was written without, by an older version, have their default."""
        names = [field.name for field in fields(self._record)]  # type: ignore[arg-type]
        return self._record(**{name: row[name] for name in names if row.get(name) is not None})

    def _ddl(self) -> str:
        columns = [f"`{field.name}` {SPARK_TYPES[field.type]}" for field in fields(self._record)]  # type: ignore[arg-type, index]
        return ", ".join(["entry BIGINT", *columns, "written_at TIMESTAMP"])

    def _newest_commit(self) -> str:
        return max((path.name for path in (self._path / "_delta_log").glob("*.json")), default="")
