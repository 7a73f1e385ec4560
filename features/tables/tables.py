"""The tables of one world, behind their ledger.

Readers ask the ledger and read the version it names, so what no ledger row declares is never seen, however a reader
was started; writers go through write, audit, publish (`publishing.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from features.days import day_range
from features.errors import GateClosed, GemlineError
from features.home import Home
from features.tables import publishing
from features.tables.decisions import Decisions
from features.tables.ledger import Gate, Ledger, Verdict
from features.tables.lineage import digests_of
from features.tables.publishing import DayResult
from features.tables.quarantine import Refused, keep
from features.tables.specs import spec_of
from features.worlds.schema import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class PinnedDay:
    """The files of one day in a pinned version, for readers without Spark."""

    content_hash: str
    paths: tuple[str, ...]


class Tables:
    """All tables of a world, behind its ledger."""

    def __init__(self, spark: "SparkSession", world: World, home: Home) -> None:
        """Open the tables below `home.tables`; nothing is read yet."""
        self.spark = spark
        self.world = world
        self.home = home

    @cached_property
    def ledger(self) -> Ledger:
        """The gates ledger."""
        return Ledger(self.spark, self.home.tables / "gates")

    @cached_property
    def decisions(self) -> Decisions:
        """The decisions ledger."""
        return Decisions(self.spark, self.home.tables / "decisions")

    def path(self, table: str) -> Path:
        """Folder of a table."""
        return self.home.tables / table

    # ------------------------------------------------------------------ reading

    def readable_days(self, table: str) -> dict[str, str]:
        """Day to published content hash of every readable day, in date order."""
        return {ds: gate.content_hash for ds, gate in sorted(self.ledger.published(table).items())}

    def version(self, table: str) -> int:
        """Newest table version that the ledger knows of; -1 when nothing was published."""
        return max((gate.delta_version for gate in self.ledger.published(table).values()), default=-1)

    def schema(self, table: str) -> "StructType | None":
        """Columns of the version that the ledger names; None before the first publish."""
        return self._pinned(table).schema if self.version(table) >= 0 else None

    def read(self, table: str, days: Sequence[str]) -> "DataFrame":
        """Rows of the given days from the version that the ledger names.

        Raises:
            GateClosed: a day is not readable; says which rule closed it, or what to run.
        """
        spec = spec_of(table)
        self.require(table, days)
        frame = self._pinned(table)
        return frame.where(frame[spec.partition].isin(list(days)))

    def read_through(self, table: str, last: str, first: str | None = None) -> "DataFrame":
        """Rows of all days from `first` (default: the world's first day) to `last`, each of which must be readable."""
        return self.read(table, day_range(first or self.world.first_day, last))

    def require(self, table: str, days: Sequence[str]) -> None:
        """Refuse days that are not readable.

        Raises:
            GateClosed: as `read`.
        """
        if not days:
            raise GemlineError(f"{table}: no days were asked for")
        published = self.ledger.published(table)
        missing = [ds for ds in days if ds not in published]
        if missing:
            raise GateClosed(self._closed_message(table, missing))

    def files(self, table: str, days: Sequence[str]) -> dict[str, PinnedDay]:
        """Plain Parquet files of the given days in the pinned version.

        Raises:
            GateClosed: as `read`.
        """
        spec = spec_of(table)
        self.require(table, days)
        hashes = self.readable_days(table)
        paths: dict[str, list[str]] = {ds: [] for ds in days}
        for uri in self._pinned(table).inputFiles():
            ds = _partition_value(uri, spec.partition)
            if ds in paths:
                paths[ds].append(unquote(urlparse(uri).path))
        return {ds: PinnedDay(hashes[ds], tuple(sorted(found))) for ds, found in paths.items()}

    def _pinned(self, table: str) -> "DataFrame":
        reader = self.spark.read.format("delta").option("versionAsOf", self.version(table))
        return reader.load(str(self.path(table)))

    def _closed_message(self, table: str, missing: Sequence[str]) -> str:
        gate = self.ledger.newest(table, missing[0])
        many = f" (and {len(missing) - 1} more days)" if len(missing) > 1 else ""
        if gate is None:
            return f"{table} of {missing[0]}{many} was never published; materialize it first"
        return (
            f"{table} of {missing[0]}{many} is closed: its audit failed on {gate.rule} ({gate.sample}); "
            "mend the source and materialize it again"
        )

    # --------------------------------------------------------------- publishing

    def publish(
        self,
        table: str,
        frame: "DataFrame",
        days: Sequence[str],
        expected_rows: Mapping[str, int] | None = None,
        *,
        refused: Mapping[str, int] | None = None,
        inputs: Mapping[str, str] | None = None,
    ) -> list[DayResult]:
        """Stage, audit and publish the given days; days whose content is already published cost no commit.

        Args:
            table: name of the table.
            frame: rows of these days only, partition column among them.
            days: in date order; a day without rows is red unless the world says that it is closed.
            expected_rows: day -> exact number of rows that it must have.
            refused: day -> raw rows that its source refused.
            inputs: day -> what it was made from (`inputs`), taken before it was computed; default: as of now.

        Returns:
            One result a day, all green.

        Raises:
            QualityFailed: a day is red. The days before the first red one are published, nothing of it or after it.
            GemlineError: rows of other days, or a column whose type is not the table's.
        """
        spec = spec_of(table)
        with self.home.writing(f"publishing {table} of {days[0]}" + (f"..{days[-1]}" if len(days) > 1 else "")):
            return publishing.publish(self, spec, frame, days, expected_rows or {}, refused or {}, inputs)

    def inputs(self, table: str, days: Sequence[str]) -> dict[str, str]:
        """Day -> digest of the published content that it is made from."""
        return digests_of(table, days, self)

    def recover(self, table: str) -> list[Gate]:
        """Add ledger rows that a crash between a commit and its ledger rows left out; the lock is held."""
        return publishing.recover(self, table)

    def waive(self, table: str, ds: str, reason: str) -> Gate:
        """Let a person accept the content of a failed audit: the next publish of exactly this content goes through.

        Raises:
            GemlineError: no reason, or the day's newest audit did not fail.
        """
        gate = self.ledger.newest(table, ds)
        if not reason.strip() or gate is None or gate.verdict != Verdict.FAILED:
            raise GemlineError(f"{table} of {ds}: only a failed audit can be waived, and only with a reason")
        waiver = replace(gate, verdict=Verdict.WAIVED, sample=reason)
        with self.home.writing(f"waiving {table} of {ds}"):
            self.ledger.append([waiver])
        return waiver

    def quarantine(self, refused: "DataFrame", days: Sequence[str]) -> list[Refused]:
        """Keep refused rows in `quarantine_<table>` (`quarantine.keep`), behind the writer lock."""
        with self.home.writing(f"quarantine of {days[0]}"):
            return keep(self.home.tables, refused, days)


def _partition_value(uri: str, partition: str) -> str | None:
    marker = f"/{partition}="
    return uri.split(marker, 1)[1].split("/", 1)[0] if marker in uri else None
