"""From a table computation to Dagster: one materialization and one quality check a day, also when a run covers a range.

The gate itself is the ledger in `features.tables`; what is reported here displays it. A red day fails the run
before anything of it is materialized.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from features.errors import GemlineError, QualityFailed
from features.quality.validation import site
from features.worlds import World
from orchestration.partitions import day_axis
from orchestration.resources import WorldResource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from features.tables import DayResult, Tables
    from features.tables.quarantine import Refused

    Compute = Callable[[SparkSession, World, Sequence[str], Tables], DataFrame]

CHECK = "quality"
Events = Generator[dg.AssetCheckResult | dg.MaterializeResult, None, None]


def asset_key(world: World, *name: str) -> dg.AssetKey:
    """Key of a world's asset; a vertical's have its name before their own."""
    return dg.AssetKey([world.name, *name])


def quality_check(world: World, name: str, key: dg.AssetKey | None = None) -> dg.AssetCheckSpec:
    """The blocking check that shows a table's audit."""
    return dg.AssetCheckSpec(
        CHECK,
        asset=key or asset_key(world, name),
        blocking=True,
        partitions_def=day_axis(world),
        description=f"Great Expectations suite of {name}, run on staged rows before they are published.",
    )


def table_options(world: World, name: str, group: str, **more: Any) -> dict[str, Any]:
    """What all table assets have in common: key, axis, range runs in one pass, kinds, owner, check."""
    key = more.pop("key", asset_key(world, name))
    return {
        "key": key,
        "partitions_def": day_axis(world),
        "backfill_policy": dg.BackfillPolicy.single_run(),
        "group_name": group,
        "kinds": {"spark", "deltalake"},
        "owners": ["team:ads-ranking"],
        "check_specs": [quality_check(world, name, key)],
        **more,
    }


@contextmanager
def plain_failure() -> Iterator[None]:
    """Turn a fault that the user can mend into a failure whose description is its one sentence."""
    try:
        yield
    except GemlineError as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error


def publish_table(
    context: dg.AssetExecutionContext,
    gemline: WorldResource,
    name: str,
    compute: "Compute",
    expected: "Callable[[SparkSession, World, Sequence[str], Tables], Mapping[str, int]] | None" = None,
) -> Events:
    """Compute the run's days of a table, publish them and report each.

    Args:
        context: gives the days.
        gemline: gives world and tables.
        name: the table.
        compute: (spark, world, days, tables) -> rows of these days.
        expected: like `compute`, but day -> exact number of rows due.
    """
    with plain_failure():
        tables = gemline.tables()
        scope = (tables.spark, gemline.world, context.partition_keys, tables)
        inputs = tables.inputs(name, context.partition_keys)
        frame = compute(*scope)
        counts = expected(*scope) if expected else None
        yield from publish_frame(context, gemline, name, frame, counts, inputs=inputs)


def publish_frame(
    context: dg.AssetExecutionContext,
    gemline: WorldResource,
    name: str,
    frame: "DataFrame",
    expected_rows: Mapping[str, int] | None = None,
    *,
    key: dg.AssetKey | None = None,
    inputs: Mapping[str, str] | None = None,
    refused: "Sequence[Refused] | None" = None,
) -> Events:
    """Publish a computed frame for the run's days and report each day.

    Args:
        context: gives the days.
        gemline: gives world and tables.
        name: the table.
        frame: rows of these days.
        expected_rows: day -> exact number of rows due.
        key: asset to report under; default: the table's own.
        inputs: what each day was made from (`Tables.inputs`), taken before it was computed.
        refused: what the source refused, of all tables; None where nothing is refused.
    """
    key = key or asset_key(gemline.world, name)
    tables, kept_out = gemline.tables(), _refused(name, context.partition_keys, refused)
    counts = None if kept_out is None else {ds: sum(one.rows for one in found) for ds, found in kept_out.items()}
    shown = partial(_check_result, key, site(tables.home), kept_out or {})
    try:
        results = tables.publish(name, frame, context.partition_keys, expected_rows, refused=counts, inputs=inputs)
    except QualityFailed as error:
        for result in error.results[:-1]:
            context.log_event(dg.AssetMaterialization(key, partition=result.ds, metadata=_metadata(result)))
        _report_days(context, key, shown, error.results)
        _tell(context, name, error.results)
        yield shown(error.results[-1])
        raise
    rows, rewritten = sum(result.rows for result in results), sum(result.changed for result in results)
    context.log.info("%s", f"{name}: {len(results)} days, {rows:,} rows, {rewritten} days new or changed")
    for result in results:
        context.add_asset_metadata(_metadata(result), asset_key=key, partition_key=result.ds)
    if len(results) > 1:
        _report_days(context, key, shown, results)
    _tell(context, name, results)
    yield shown(results[-1])
    yield dg.MaterializeResult(asset_key=key)


def _refused(name: str, days: Sequence[str], refused: "Sequence[Refused] | None") -> "dict[str, list[Refused]] | None":
    """Day -> what was refused of this table, or None where nothing ever is."""
    if refused is None:
        return None
    return {ds: [one for one in refused if (one.table, one.ds) == (name, ds)] for ds in days}


def _tell(context: dg.AssetExecutionContext, name: str, results: "Sequence[DayResult]") -> None:
    """Warnings, for whoever reads the run's output."""
    for result in results:
        for warning in result.warnings if result.changed else ():
            context.log.warning("%s", f"{name} of {result.ds}: {warning}")


def _report_days(
    context: dg.AssetExecutionContext,
    key: dg.AssetKey,
    shown: "Callable[[DayResult], dg.AssetCheckResult]",
    results: "Sequence[DayResult]",
) -> None:
    """In a range run Dagster records a check without its partition, so each day is reported by itself."""
    for result in results:
        check = shown(result)
        evaluation = dg.AssetCheckEvaluation(
            asset_key=key,
            check_name=CHECK,
            passed=check.passed,
            severity=check.severity,
            partition=result.ds,
            metadata=check.metadata,
        )
        # within the run: an evaluation outside of one could be recorded only once a day and check
        context.log_event(evaluation)


def _check_result(
    key: dg.AssetKey, docs: Path, refused: "Mapping[str, Sequence[Refused]]", result: "DayResult"
) -> dg.AssetCheckResult:
    """A day's audit: red stops what follows, warnings are yellow and stop nothing."""
    metadata: dict[str, Any] = {"day": result.ds, "verdict": str(result.verdict), "rows": result.rows}
    if result.rule:
        metadata |= {"rule": result.rule, "sample": result.sample}
    if result.warnings:
        metadata["warnings"] = dg.MetadataValue.md("\n".join(f"- {text}" for text in result.warnings))
    if found := refused.get(result.ds):
        metadata["quarantine"] = dg.MetadataValue.md(refused_table(found))
    for name, page in zip(("rows_page", "day_page"), result.pages, strict=False):
        metadata[name] = dg.MetadataValue.url((docs / page).as_uri())
    metadata["data_docs"] = dg.MetadataValue.url((docs / "index.html").as_uri())
    return dg.AssetCheckResult(
        passed=result.green and not result.warnings,
        severity=dg.AssetCheckSeverity.WARN if result.green else dg.AssetCheckSeverity.ERROR,
        asset_key=key,
        check_name=CHECK,
        metadata=metadata,
    )


def refused_table(refused: "Sequence[Refused]") -> str:
    """Counts by rule and source file, as Markdown."""
    lines = [f"| {one.rule} | {one.source} | {one.rows} |" for one in refused]
    return "\n".join(["| rule | source | rows |", "|---|---|---:|", *lines])


def _metadata(result: "DayResult") -> dict[str, Any]:
    return {
        "dagster/row_count": result.rows,
        "content_hash": result.content_hash,
        "verdict": str(result.verdict),
        "rewritten": result.changed,
        "restated": result.restated,
    }
