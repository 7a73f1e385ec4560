"""Reading and publishing the tables of one world.

Write, audit, publish: rows are staged as files, those very files are hashed and audited, and green days go into
the Delta table in one commit whose metadata names their hashes; then the ledger gets its rows. Readers ask the
ledger and read the version it names, so what no ledger row declares is never seen, however a reader was
started.
"""

import json
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from features.days import day_range
from features.errors import GateClosed, GemlineError, QualityFailed
from features.home import Home
from features.quality.audit import audit
from features.tables.content_hash import content_hashes, empty_hash
from features.tables.decisions import Decisions
from features.tables.ledger import Gate, Ledger, Verdict
from features.tables.specs import TableSpec, spec_of
from features.worlds.schema import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class DayResult:
    """What became of one day of a publish.

    Attributes:
        ds: the day.
        content_hash: of its staged rows.
        verdict: see `Verdict`.
        rows: number of rows.
        rule: first broken rule, empty when green.
        sample: offending rows as text.
        changed: whether a commit was needed.
    """

    ds: str
    content_hash: str
    verdict: str
    rows: int
    rule: str = ""
    sample: str = ""
    changed: bool = True

    @property
    def green(self) -> bool:
        """Whether the day may be read."""
        return self.verdict != Verdict.FAILED


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
        self, table: str, frame: "DataFrame", days: Sequence[str], expected_rows: Mapping[str, int] | None = None
    ) -> list[DayResult]:
        """Stage, audit and publish the given days; days whose content is already published cost no commit.

        Args:
            table: name of the table.
            frame: rows of these days only, partition column among them.
            days: in date order; a day without rows is red unless the world says that it is closed.
            expected_rows: day -> exact number of rows that it must have.

        Returns:
            One result a day, all green.

        Raises:
            QualityFailed: a day is red. The days before the first red one are published, nothing of it or after it.
        """
        spec = spec_of(table)
        with self.home.writing(f"publishing {table} of {days[0]}" + (f"..{days[-1]}" if len(days) > 1 else "")):
            self.recover(table)
            staging = self.home.tables / "_staging" / f"{table}-{uuid.uuid4().hex}"
            try:
                return self._publish(spec, frame, list(days), dict(expected_rows or {}), staging)
            finally:
                shutil.rmtree(staging, ignore_errors=True)

    def _publish(
        self, spec: TableSpec, frame: "DataFrame", days: list[str], expected: dict[str, int], staging: Path
    ) -> list[DayResult]:
        staged = self._stage(spec, frame, staging)
        foreign = set(hashes := content_hashes(staged, spec.partition)) - set(days)
        if foreign:
            raise GemlineError(
                f"{spec.name}: rows of {sorted(map(str, foreign))[:3]} among those of {days[0]}..{days[-1]}"
            )
        nothing = empty_hash(staged, spec.partition)
        found = {ds: hashes.get(ds, (nothing, 0)) for ds in days}
        results = self._audited(spec, staging, staged, found, expected)
        red = next((result for result in results if not result.green), None)
        green = [result for result in results if red is None or result.ds < red.ds]
        self._commit(spec, staged, green)
        if red is None:
            return green
        self.ledger.append([_gate(spec.name, red, published=False, version=-1)])
        raise QualityFailed(
            f"{spec.name} of {red.ds} failed its audit on {red.rule}: {red.sample}; nothing of that day was published",
            [*green, red],
        )

    def _stage(self, spec: TableSpec, frame: "DataFrame", staging: Path) -> "DataFrame":
        ordered = frame.repartition(spec.partition).sortWithinPartitions(spec.partition, *spec.keys)
        ordered.write.partitionBy(spec.partition).parquet(str(staging))
        return self.spark.read.schema(frame.schema).parquet(str(staging))

    def _audited(
        self,
        spec: TableSpec,
        staging: Path,
        staged: "DataFrame",
        found: dict[str, tuple[str, int]],
        expected: dict[str, int],
    ) -> list[DayResult]:
        published = self.readable_days(spec.name)
        fresh = {ds: rows for ds, (content, rows) in found.items() if published.get(ds) != content}
        faults = audit(spec, self.world, staging, staged, fresh, expected)
        results = []
        for ds, (content, rows) in found.items():
            rule, sample = faults.get(ds, ("", ""))
            verdict = self._verdict(spec.name, ds, content, rows, rule)
            results.append(DayResult(ds, content, verdict, rows, rule, sample, changed=ds in fresh))
        return results

    def _verdict(self, table: str, ds: str, content: str, rows: int, rule: str) -> str:
        if not rule:
            return Verdict.CLOSED if rows == 0 else Verdict.PASSED
        return Verdict.WAIVED if self.ledger.waiver(table, ds, content) else Verdict.FAILED

    def _commit(self, spec: TableSpec, staged: "DataFrame", results: list[DayResult]) -> None:
        changed = [result for result in results if result.changed]
        if not changed:
            return
        days = ", ".join(f"'{result.ds}'" for result in changed)
        condition = f"{spec.partition} IN ({days})"
        note = {result.ds: _note(result) for result in changed}
        writer = staged.where(condition).write.format("delta").mode("overwrite").partitionBy(spec.partition)
        writer = writer.option("userMetadata", json.dumps(note)).option("mergeSchema", "true")
        if self._exists(spec.name):
            writer = writer.option("replaceWhere", condition)
        writer.save(str(self.path(spec.name)))
        version = self._latest(spec.name)
        self.ledger.append([_gate(spec.name, result, published=True, version=version) for result in changed])

    def recover(self, table: str) -> list[Gate]:
        """Add ledger rows that a crash between a commit and its ledger rows left out; the lock is held."""
        known = self.version(table)
        if not self._exists(table) or self._latest(table) <= known:
            return []
        missing = self._noted_since(table, known)
        self.ledger.append(missing)
        return missing

    def _noted_since(self, table: str, known: int) -> list[Gate]:
        from delta import DeltaTable

        rows = DeltaTable.forPath(self.spark, str(self.path(table))).history().where(f"version > {known}")
        gates = []
        for row in sorted(rows.collect(), key=lambda found: found["version"]):
            for ds, note in json.loads(row["userMetadata"] or "{}").items():
                gates.append(Gate(table, ds, published=True, delta_version=row["version"], **note))
        return gates

    def waive(self, table: str, ds: str, reason: str) -> Gate:
        """Let a person accept the content of a failed audit: the next publish of exactly this content goes through.

        Raises:
            GemlineError: no reason, or the day's newest audit did not fail.
        """
        gate = self.ledger.newest(table, ds)
        if not reason.strip() or gate is None or gate.verdict != Verdict.FAILED:
            raise GemlineError(f"{table} of {ds}: only a failed audit can be waived, and only with a reason")
        waiver = Gate(
            table,
            ds,
            gate.content_hash,
            Verdict.WAIVED,
            gate.rows,
            gate.rule,
            reason,
            published=False,
            delta_version=-1,
        )
        with self.home.writing(f"waiving {table} of {ds}"):
            self.ledger.append([waiver])
        return waiver

    def quarantine(self, refused: "DataFrame", days: Sequence[str]) -> dict[str, int]:
        """Keep refused rows in `quarantine_<table>`, replacing those of the same days.

        Args:
            refused: columns ds, table, rule, source, row.
            days: all days that were extracted, so that a mended day leaves its quarantine empty.

        Returns:
            table -> number of rows refused on these days.
        """
        counts: dict[str, int] = {}
        rows = refused.persist()
        found = {row["table"]: row["count"] for row in rows.groupBy("table").count().collect()}
        kept = {path.name.removeprefix("quarantine_") for path in self.home.tables.glob("quarantine_*")}
        for table in sorted(found.keys() | kept):
            target = self.home.tables / f"quarantine_{table}"
            writer = rows.where(rows["table"] == table).coalesce(1).write.format("delta").mode("overwrite")
            if target.exists():
                listed = ", ".join(f"'{ds}'" for ds in days)
                writer = writer.option("replaceWhere", f"ds IN ({listed})")
            writer.partitionBy("ds").save(str(target))
            counts[table] = found.get(table, 0)
        rows.unpersist()
        return counts

    def _exists(self, table: str) -> bool:
        return (self.path(table) / "_delta_log").is_dir()

    def _latest(self, table: str) -> int:
        log = self.path(table) / "_delta_log"
        return max(int(path.stem) for path in log.glob("*.json") if path.stem.isdigit())


def _note(result: DayResult) -> dict[str, object]:
    return {
        "content_hash": result.content_hash,
        "verdict": str(result.verdict),
        "rows": result.rows,
        "rule": result.rule,
        "sample": result.sample,
    }


def _gate(table: str, result: DayResult, *, published: bool, version: int) -> Gate:
    return Gate(table, result.ds, published=published, delta_version=version, **_note(result))  # type: ignore[arg-type]


def _partition_value(uri: str, partition: str) -> str | None:
    marker = f"/{partition}="
    return uri.split(marker, 1)[1].split("/", 1)[0] if marker in uri else None
