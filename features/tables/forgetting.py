"""Taking a user out of published tables: restatements that the ledger explains, then no old version left.

Rows that name the user go by `user_id`; labels, predictions and train vectors go by the user's impressions, and
outcomes without a user by the user's requests. What leads to other rows is removed after them, so a run that breaks off
is ended by the next one. A restated day stays readable under its old verdict: fewer rows break no rule about rows.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.errors import GemlineError
from features.sources.mentions import mentions
from features.tables.content_hash import content_hashes, empty_hash
from features.tables.ledger import Gate, Verdict
from features.tables.quarantine import PREFIX
from features.tables.specs import spec_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from features.tables import Tables

LEADING = ("fm_outputs", "examples", "impressions")
"""They say which impressions are the user's; the last of them goes last."""
VACUUM_NOW = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.logging.enabled": "false",
    # 10,000 otherwise, which is 40 s a table
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}
"""Settings under which Delta deletes files that were just superseded."""

Days = dict[str, int]
"""Day -> rows of the user."""


@dataclass(frozen=True)
class Traces:
    """What tells a user's rows.

    Attributes:
        user_id: the user.
        impressions: one column, `impression_id`.
        requests: one column, `request_id`.
    """

    user_id: int
    impressions: "DataFrame"
    requests: "DataFrame"

    def same(self, user_id: "Column") -> "Column":
        """Whether an id is the user's; false for null."""
        return F.coalesce(user_id == F.lit(self.user_id), F.lit(False))

    def marked(self, frame: "DataFrame") -> "DataFrame":
        """The frame with `_own`: whether a row is the user's."""
        names = set(frame.columns)
        if "user_id" not in names:
            by_impression = "impression_id" in names
            return (
                _hit(frame, self.impressions, "impression_id")
                if by_impression
                else frame.withColumn("_own", F.lit(False))
            )
        own = self.same(F.col("user_id"))
        if "request_id" not in names or "impression_id" in names:
            return frame.withColumn("_own", own)
        # an outcome may leave the user to its request
        by_request = _hit(frame, self.requests, "request_id")
        return by_request.withColumn("_own", own | (F.col("user_id").isNull() & F.col("_own")))


def traces(tables: "Tables", user_id: int) -> Traces:
    """Impressions and requests of a user in all published days."""
    spark = tables.spark
    found = {"impression_id": spark.createDataFrame([], "impression_id BIGINT")}
    found["request_id"] = spark.createDataFrame([], "request_id BIGINT")
    for name in LEADING:
        if not tables.readable_days(name):
            continue
        own = _published(tables, name).where(F.col("user_id") == F.lit(user_id))
        for key in found:
            if key in own.columns:
                found[key] = found[key].unionByName(own.select(key).where(F.col(key).isNotNull()))
    impressions, requests = (frame.distinct().persist() for frame in found.values())
    return Traces(user_id, impressions, requests)


def table_names(tables: "Tables") -> list[str]:
    """Published tables, those that lead to others last."""
    names = {gate.table for gate in tables.ledger.rows() if gate.published}
    return sorted(names, key=lambda name: (LEADING.index(name) + 1 if name in LEADING else 0, name))


def held(tables: "Tables", user: Traces) -> dict[str, Days]:
    """Table -> day -> rows of the user, in the order of `table_names`; tables without any are absent."""
    found: dict[str, Days] = {}
    for name in table_names(tables):
        partition = spec_of(name).partition
        own = user.marked(_published(tables, name)).where("_own")
        days = {row[partition]: row["count"] for row in own.groupBy(partition).count().collect()}
        if days:
            found[name] = dict(sorted(days.items()))
    return found


def withdraw(tables: "Tables", table: str, days: Sequence[str], user: Traces, reason: str) -> list[Gate]:
    """Publish days of a table again without the user's rows, in one commit; the writer lock is held.

    Returns:
        The new rows of the ledger: verdicts as before, or `waived` for a day of which nothing is left.
    """
    spec, published = spec_of(table), tables.ledger.published(table)
    rest = user.marked(tables.read(table, days)).where("not _own")
    rest = rest.select(*tables.read(table, days).columns)
    hashes, nothing = content_hashes(rest, spec.partition), empty_hash(rest, spec.partition)
    gates = [_without(published[ds], *hashes.get(ds, (nothing, 0)), reason) for ds in days]
    listed = ", ".join(f"'{ds}'" for ds in days)
    ordered = rest.repartition(spec.partition).sortWithinPartitions(spec.partition, *spec.keys)
    writer = ordered.write.format("delta").mode("overwrite").partitionBy(spec.partition)
    writer = writer.option("userMetadata", json.dumps({gate.ds: _note(gate) for gate in gates}))
    writer.option("replaceWhere", f"{spec.partition} IN ({listed})").save(str(tables.path(table)))
    gates = [replace(gate, delta_version=_latest(tables, table)) for gate in gates]
    tables.ledger.append(gates)
    return gates


def refused(tables: "Tables", user: Traces, *, delete: bool) -> dict[str, int]:
    """Quarantine table -> refused rows of the user; deleted when asked, with the writer lock held."""
    from delta import DeltaTable

    found: dict[str, int] = {}
    for path in sorted(tables.home.tables.glob(f"{PREFIX}*")):
        rows = tables.spark.read.format("delta").load(str(path))
        own = mentions(rows, tables.world, user.same)
        if count := rows.where(own).count():
            found[path.name] = count
            if delete:
                DeltaTable.forPath(tables.spark, str(path)).delete(own)
    return found


def drop_old_versions(tables: "Tables") -> None:
    """Delete the files of all versions but the published ones, and of staging; the writer lock is held.

    Raises:
        GemlineError: a table's newest version is not the one that the ledger names, so its files are left alone.
    """
    from delta import DeltaTable

    shutil.rmtree(tables.home.tables / "_staging", ignore_errors=True)
    for name in table_names(tables):
        newest = tables.spark.read.format("delta").load(str(tables.path(name)))
        if set(newest.inputFiles()) != set(_published(tables, name).inputFiles()):
            raise GemlineError(
                f"{name}: its newest Delta version holds other files than the one that the ledger names, so somebody "
                f"wrote past the ledger; old versions stay. RESTORE it to version {tables.version(name)}, then again"
            )
    refused_rows = [path.name for path in sorted(tables.home.tables.glob(f"{PREFIX}*"))]
    with _settings(tables, VACUUM_NOW):
        for name in (*table_names(tables), *refused_rows):
            DeltaTable.forPath(tables.spark, str(tables.path(name))).vacuum(0)


def _hit(frame: "DataFrame", ids: "DataFrame", key: str) -> "DataFrame":
    """The frame with `_own`: whether its key is among the ids."""
    marked = frame.join(F.broadcast(ids.withColumn("_found", F.lit(True))), key, "left")
    return marked.withColumn("_own", F.coalesce("_found", F.lit(False))).drop("_found")


def _published(tables: "Tables", table: str) -> "DataFrame":
    return tables.read(table, list(tables.readable_days(table)))


def _without(gate: Gate, content_hash: str, rows: int, reason: str) -> Gate:
    verdict = gate.verdict if rows else Verdict.WAIVED
    return replace(gate, content_hash=content_hash, rows=rows, verdict=verdict, sample=reason, delta_version=-1)


def _note(gate: Gate) -> Mapping[str, object]:
    """What `Tables.recover` makes a ledger row of, after a crash between commit and ledger."""
    note = asdict(replace(gate, verdict=str(gate.verdict)))
    return {name: value for name, value in note.items() if name not in ("table", "ds", "published", "delta_version")}


def _latest(tables: "Tables", table: str) -> int:
    log = tables.path(table) / "_delta_log"
    return max(int(path.stem) for path in log.glob("*.json") if path.stem.isdigit())


@contextmanager
def _settings(tables: "Tables", wanted: Mapping[str, str]) -> Iterator[None]:
    conf = tables.spark.conf
    before = {name: conf.get(name, None) for name in wanted}
    try:
        for name, value in wanted.items():
            conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                conf.unset(name)
            else:
                conf.set(name, old)
