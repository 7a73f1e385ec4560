"""From a table computation to Dagster: one materialization and one quality check a day, also when a run covers a range.

The gate itself is the ledger in `features.tables`; what is reported here displays it. A red day fails the run
before anything of it is materialized.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dagster as dg

from features.errors import GemlineError, QualityFailed
from features.worlds import World
from orchestration.partitions import day_axis
from orchestration.resources import WorldResource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from features.tables import DayResult, Tables

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
        frame = compute(*scope)
        counts = expected(*scope) if expected else None
        yield from publish_frame(context, gemline, name, frame, counts)


def publish_frame(
    context: dg.AssetExecutionContext,
    gemline: WorldResource,
    name: str,
    frame: "DataFrame",
    expected_rows: Mapping[str, int] | None = None,
    key: dg.AssetKey | None = None,
) -> Events:
    """Publish a computed frame for the run's days and report each day, under the table's own asset by default."""
    key = key or asset_key(gemline.world, name)
    try:
        results = gemline.tables().publish(name, frame, context.partition_keys, expected_rows)
    except QualityFailed as error:
        for result in error.results[:-1]:
            context.log_event(dg.AssetMaterialization(key, partition=result.ds, metadata=_metadata(result)))
        _report_days(context, key, error.results)
        yield _check_result(key, error.results[-1])
        raise
    rows, rewritten = sum(result.rows for result in results), sum(result.changed for result in results)
    context.log.info("%s", f"{name}: {len(results)} days, {rows:,} rows, {rewritten} days new or changed")
    for result in results:
        context.add_asset_metadata(_metadata(result), asset_key=key, partition_key=result.ds)
    if len(results) > 1:
        _report_days(context, key, results)
    yield _check_result(key, results[-1])
    yield dg.MaterializeResult(asset_key=key)


def _report_days(context: dg.AssetExecutionContext, key: dg.AssetKey, results: "Sequence[DayResult]") -> None:
    """In a range run Dagster records a check without its partition, so each day is reported by itself."""
    for result in results:
        shown = _check_result(key, result)
        evaluation = dg.AssetCheckEvaluation(
            asset_key=key,
            check_name=CHECK,
            passed=shown.passed,
            severity=shown.severity,
            partition=result.ds,
            metadata=shown.metadata,
        )
        # within the run: an evaluation outside of one could be recorded only once a day and check
        context.log_event(evaluation)


def _check_result(key: dg.AssetKey, result: "DayResult") -> dg.AssetCheckResult:
    sample = {"rule": result.rule, "sample": result.sample} if result.rule else {}
    return dg.AssetCheckResult(
        passed=result.green,
        asset_key=key,
        check_name=CHECK,
        metadata={"day": result.ds, "verdict": str(result.verdict), "rows": result.rows, **sample},
    )


def _metadata(result: "DayResult") -> dict[str, Any]:
    return {
        "dagster/row_count": result.rows,
        "content_hash": result.content_hash,
        "verdict": str(result.verdict),
        "rewritten": result.changed,
    }
