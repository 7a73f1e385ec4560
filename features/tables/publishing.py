"""Write, audit, publish: what becomes of the rows of some days on their way into a table; the writer lock is held.

Rows are staged as files, those very files are hashed and audited, and green days go into the Delta table in one
commit whose metadata names their hashes; then the ledger gets its rows. A crash between the two is mended by the
next writer from the commit's own metadata.
"""

import json
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from features.errors import GemlineError, QualityFailed
from features.quality.audit import audit
from features.quality.outcome import Audited, Staged
from features.quality.past import Past
from features.quality.shape import Change, change_of, require_whole
from features.tables.content_hash import content_hashes, empty_hash
from features.tables.ledger import Gate, Verdict
from features.tables.specs import TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from features.tables.tables import Tables


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
        restated: whether other content was published for the day until now.
        inputs: see `Gate`.
        warnings: what was found beside, which lets the day through.
        pages: pages of the audit, relative to the site of the Data Docs.
    """

    ds: str
    content_hash: str
    verdict: str
    rows: int
    rule: str = ""
    sample: str = ""
    changed: bool = True
    restated: bool = False
    inputs: str = ""
    warnings: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()

    @property
    def green(self) -> bool:
        """Whether the day may be read."""
        return self.verdict != Verdict.FAILED


def publish(
    tables: "Tables",
    spec: TableSpec,
    frame: "DataFrame",
    days: Sequence[str],
    expected: Mapping[str, int],
    refused: Mapping[str, int],
    inputs: Mapping[str, str] | None,
) -> list[DayResult]:
    """Stage, audit and publish days of a table; arguments, result and errors are those of `Tables.publish`."""
    recover(tables, spec.name)
    change = change_of(tables.schema(spec.name), frame.schema)
    require_whole(change, spec.name, list(tables.readable_days(spec.name)), days)
    folder = tables.home.tables / "_staging" / f"{spec.name}-{uuid.uuid4().hex}"
    try:
        staged = _staged(tables, spec, frame, days, folder, change)
        staged = replace(staged, expected=expected, refused=refused)
        return _published(tables, staged, inputs or tables.inputs(spec.name, days))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _staged(
    tables: "Tables", spec: TableSpec, frame: "DataFrame", days: Sequence[str], folder: Path, change: Change
) -> Staged:
    ordered = frame.repartition(spec.partition).sortWithinPartitions(spec.partition, *spec.keys)
    ordered.write.partitionBy(spec.partition).parquet(str(folder))
    written = tables.spark.read.schema(frame.schema).parquet(str(folder))
    hashes, nothing = content_hashes(written, spec.partition), empty_hash(written, spec.partition)
    if foreign := set(hashes) - set(days):
        raise GemlineError(f"{spec.name}: rows of {sorted(map(str, foreign))[:3]} among those of {days[0]}..{days[-1]}")
    found = {ds: hashes.get(ds, (nothing, 0)) for ds in days}
    content, rows = {ds: pair[0] for ds, pair in found.items()}, {ds: pair[1] for ds, pair in found.items()}
    return Staged(spec, folder, written, content, rows, change=change)


def _published(tables: "Tables", staged: Staged, inputs: Mapping[str, str]) -> list[DayResult]:
    """Commit the days before the first red one; of a table whose types change, all days or none."""
    name = staged.spec.name
    results = _audited(tables, staged, inputs)
    red = next((result for result in results if not result.green), None)
    if red is None:
        _commit(tables, staged, results)
        return results
    green = [] if staged.change.retyped else [result for result in results if result.ds < red.ds]
    _commit(tables, staged, green)
    tables.ledger.append([_gate(name, red, published=False, version=-1)])
    raise QualityFailed(
        f"{name} of {red.ds} failed its audit on {red.rule}: {red.sample}; nothing of that day was published",
        [*green, red],
    )


def _audited(tables: "Tables", staged: Staged, inputs: Mapping[str, str]) -> list[DayResult]:
    """One result a day; days whose content is published already have had their audit."""
    name, published = staged.spec.name, tables.ledger.published(staged.spec.name)
    fresh = {ds: rows for ds, rows in staged.rows.items() if _content(published, ds) != staged.content[ds]}
    found = audit(replace(staged, rows=fresh), tables.world, tables.home, Past(tables)) if fresh else {}
    results = []
    for ds, content in staged.content.items():
        one = found[ds] if ds in fresh else _audited_before(published[ds])
        results.append(
            DayResult(
                ds=ds,
                content_hash=content,
                verdict=_verdict(tables, name, ds, content, staged.rows[ds], one.rule),
                rows=staged.rows[ds],
                rule=one.rule,
                sample=one.sample,
                changed=ds in fresh,
                restated=ds in fresh and ds in published,
                inputs=inputs.get(ds, ""),
                warnings=one.warnings,
                pages=one.pages,
            )
        )
    return results


def _content(published: Mapping[str, Gate], ds: str) -> str:
    return published[ds].content_hash if ds in published else ""


def _audited_before(gate: Gate) -> Audited:
    """What the audit of published content found; a waived day keeps its rule."""
    warnings, pages = tuple(gate.warnings.splitlines()), tuple(gate.pages.splitlines())
    return Audited(gate.rule, gate.sample, warnings, pages)


def _verdict(tables: "Tables", name: str, ds: str, content: str, rows: int, rule: str) -> str:
    if not rule:
        return Verdict.CLOSED if rows == 0 else Verdict.PASSED
    return Verdict.WAIVED if tables.ledger.waiver(name, ds, content) else Verdict.FAILED


# ------------------------------------------------------------------------------------------------ commit


def _commit(tables: "Tables", staged: Staged, results: list[DayResult]) -> None:
    spec, path = staged.spec, tables.path(staged.spec.name)
    changed = [result for result in results if result.changed]
    _confirm(tables, spec.name, [result for result in results if not result.changed])
    if not changed:
        return
    days = ", ".join(f"'{result.ds}'" for result in changed)
    condition = f"{spec.partition} IN ({days})"
    writer = staged.frame.where(condition).write.format("delta").mode("overwrite").partitionBy(spec.partition)
    writer = writer.option("userMetadata", json.dumps({result.ds: _note(result) for result in changed}))
    if staged.change.retyped:
        # all published days are among these: the table begins anew
        writer = writer.option("overwriteSchema", "true")
    elif _newest_version(path) >= 0:
        writer = writer.option("mergeSchema", "true").option("replaceWhere", condition)
    writer.save(str(path))
    version = _newest_version(path)
    tables.ledger.append([_gate(spec.name, result, published=True, version=version) for result in changed])


def _confirm(tables: "Tables", name: str, results: list[DayResult]) -> None:
    """Note that content which stays as it was follows from other inputs now: no commit, and the day is fresh."""
    published = tables.ledger.published(name)
    moved = [result for result in results if published[result.ds].inputs != result.inputs]
    if moved:
        tables.ledger.append([replace(published[result.ds], inputs=result.inputs) for result in moved])


def recover(tables: "Tables", name: str) -> list[Gate]:
    """Add ledger rows that a crash between a commit and its ledger rows left out."""
    from delta import DeltaTable

    path, known = tables.path(name), tables.version(name)
    if _newest_version(path) <= known:
        return []
    history = DeltaTable.forPath(tables.spark, str(path)).history().where(f"version > {known}")
    gates = [
        Gate(name, ds, published=True, delta_version=row["version"], **note)
        for row in sorted(history.collect(), key=lambda found: found["version"])
        for ds, note in json.loads(row["userMetadata"] or "{}").items()
    ]
    tables.ledger.append(gates)
    return gates


def _newest_version(table: Path) -> int:
    """Newest version in a table's Delta log, recorded or not; -1 when there is no table yet."""
    return max((int(path.stem) for path in (table / "_delta_log").glob("*.json") if path.stem.isdigit()), default=-1)


def _note(result: DayResult) -> dict[str, object]:
    """What a commit's metadata and the ledger say of a day."""
    return {
        "content_hash": result.content_hash,
        "verdict": str(result.verdict),
        "rows": result.rows,
        "rule": result.rule,
        "sample": result.sample,
        "warnings": "\n".join(result.warnings),
        "inputs": result.inputs,
        "pages": "\n".join(result.pages),
    }


def _gate(name: str, result: DayResult, *, published: bool, version: int) -> Gate:
    return Gate(name, result.ds, published=published, delta_version=version, **_note(result))  # type: ignore[arg-type]
