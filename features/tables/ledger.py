"""The gates ledger: which content of which table and day may be read, and why.

One append-only Delta table. A day is readable iff its newest *published* row says passed, waived or closed; a
failed audit adds a row too, which changes nothing for readers.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from features.tables.append_log import AppendLog

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
        warnings: what was found beside, which lets the day through: one sentence a line.
        inputs: JSON object, input table -> digest of its days that the rows were made from; empty when unknown.
        pages: the audit's pages, relative to the site of the Data Docs: one a line.
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
    warnings: str = ""
    inputs: str = ""
    pages: str = ""


class Ledger(AppendLog[Gate]):
    """Reads and appends gates; the caller holds the writer lock while appending."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        """Open the ledger at `folder`, which need not exist yet."""
        super().__init__(spark, folder, Gate)

    def published(self, table: str) -> dict[str, Gate]:
        """Day to the row that makes it readable."""
        return {gate.ds: gate for gate in self.rows() if gate.table == table and gate.published}

    def newest(self, table: str, ds: str) -> Gate | None:
        """The last thing said of a day, failed audits included."""
        return next((gate for gate in reversed(self.rows()) if gate.table == table and gate.ds == ds), None)

    def waiver(self, table: str, ds: str, content_hash: str) -> Gate | None:
        """A person's waiver for exactly this content."""
        wanted = (table, ds, content_hash, Verdict.WAIVED)
        return next(
            (gate for gate in self.rows() if (gate.table, gate.ds, gate.content_hash, gate.verdict) == wanted), None
        )
