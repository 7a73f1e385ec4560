"""The gates ledger: which content of which table and day may be read, and why.

One append-only Delta table. A day is readable iff its newest *published* row says passed, waived or closed; a failed audit adds a
row too, which changes nothing for readers.
"""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Verdict(StrEnum):
    """Outcome of one audit."""

    PASSED = "passed"
    FAILED = "failed"
    WAIVED = "waived"
    CLOSED = "closed"


@dataclass(frozen=True)
class Gate:
    """One row of the ledger.

    Attributes:
        table: audited table.
        ds: audited day (value of the table's partition column).
        content_hash: of the audited rows.
        verdict: see `Verdict`.
        rows: number of audited rows.
        rule: name of the first broken rule, or of the waived one.
        sample: offending rows as text, or a person's reason for a waiver.
        published: whether these rows became the day's content.
        delta_version: table version that holds them; -1 when not published.
    """

    table: str
    ds: str
    content_hash: str
    verdict: str
    rows: int
    rule: str
    sample: str
    published: bool
    delta_version: int


DDL = (
    "entry BIGINT, `table` STRING, ds STRING, content_hash STRING, verdict STRING, rows BIGINT, rule STRING, sample STRING, "
    "published BOOLEAN, delta_version BIGINT, written_at TIMESTAMP"
)


class Ledger:
    """Reads and appends gates; the caller holds the writer lock while appending."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        """Open the ledger at `folder`, which need not exist yet."""
        self._spark = spark
        self._path = folder
        self._seen: tuple[str, list[Gate]] = ("", [])

    def gates(self) -> list[Gate]:
        """All rows, oldest first; read again only when another commit stands in the log."""
        newest = self._newest_commit()
        if newest != self._seen[0]:
            frame = self._spark.read.format("delta").load(str(self._path)).orderBy("entry")
            names = list(Gate.__dataclass_fields__)
            self._seen = (newest, [Gate(**{name: row[name] for name in names}) for row in frame.collect()])
        return self._seen[1]

    def append(self, gates: list[Gate]) -> None:
        """Add rows in one commit."""
        if not gates:
            return
        known = self.gates()
        now = datetime.now(UTC)
        rows = [
            {"entry": len(known) + offset, **asdict(gate), "written_at": now} for offset, gate in enumerate(gates)
        ]
        frame = self._spark.createDataFrame(rows, DDL).coalesce(1)
        frame.write.format("delta").mode("append").save(str(self._path))
        self._seen = (self._newest_commit(), [*known, *gates])

    def published(self, table: str) -> dict[str, Gate]:
        """Day to the row that makes it readable."""
        return {gate.ds: gate for gate in self.gates() if gate.table == table and gate.published}

    def newest(self, table: str, ds: str) -> Gate | None:
        """The last thing said of a day, failed audits included."""
        return next((gate for gate in reversed(self.gates()) if gate.table == table and gate.ds == ds), None)

    def waiver(self, table: str, ds: str, content_hash: str) -> Gate | None:
        """A person's waiver for exactly this content."""
        wanted = (table, ds, content_hash, Verdict.WAIVED.value)
        return next((g for g in self.gates() if (g.table, g.ds, g.content_hash, g.verdict) == wanted), None)

    def _newest_commit(self) -> str:
        log = self._path / "_delta_log"
        return max((path.name for path in log.glob("*.json")), default="")
