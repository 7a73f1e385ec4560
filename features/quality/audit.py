"""Running a suite over staged days: on pandas for up to 100,000 rows, on Spark for a larger day.

Small days are validated together, and one by one only when the batch is red: every expectation is about single
rows or, like uniqueness, includes the day, so a green batch means green days.
"""

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from features.quality.suites import suite_of
from features.worlds.schema import World

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations.core.batch_definition import BatchDefinition
    from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
    from pyspark.sql import DataFrame

    from features.tables.specs import TableSpec

PANDAS_ROWS = 100_000
EMPTY_RULE = "expect_table_row_count_to_be_between"
EXACT_RULE = "expect_table_row_count_to_equal"
SAMPLE_ROWS = 3

Fault = tuple[str, str]
"""Name of the broken rule, and offending rows as text."""


def audit(
    spec: "TableSpec",
    world: World,
    staging: Path,
    staged: "DataFrame",
    days: Mapping[str, int],
    expected_rows: Mapping[str, int],
) -> dict[str, Fault]:
    """First critical fault of each red day.

    Args:
        spec: the table.
        world: gives the suite its domains and says which days are closed.
        staging: folder of the staged Parquet files.
        staged: the same files in Spark.
        days: day -> its number of rows.
        expected_rows: day -> exact number of rows that it must have.

    Returns:
        day -> fault; green days are absent.
    """
    faults = {}
    for ds, rows in days.items():
        fault = _row_count_fault(spec, world, ds, rows, expected_rows.get(ds))
        if fault is not None:
            faults[ds] = fault
    filled = {ds: rows for ds, rows in days.items() if rows and ds not in faults}
    for batch in _batches(filled):
        faults |= _batch_faults(spec, world, staging, staged, batch, sum(filled[ds] for ds in batch))
    return faults


def _row_count_fault(spec: "TableSpec", world: World, ds: str, rows: int, expected: int | None) -> Fault | None:
    if expected is not None and rows != expected:
        return EXACT_RULE, f"{rows} rows for {ds}, {expected} are due"
    if rows == 0 and expected is None and not spec.may_be_empty and not world.is_closed(ds):
        return EMPTY_RULE, f"0 rows for {ds}; list it under closed_days if that is on purpose"
    return None


def _batches(days: Mapping[str, int]) -> Iterator[list[str]]:
    batch: list[str] = []
    total = 0
    for ds, rows in days.items():
        if batch and total + rows > PANDAS_ROWS:
            yield batch
            batch, total = [], 0
        batch.append(ds)
        total += rows
    if batch:
        yield batch


def _batch_faults(
    spec: "TableSpec", world: World, staging: Path, staged: "DataFrame", batch: list[str], rows: int
) -> dict[str, Fault]:
    frame = _frame(spec, staging, staged, batch, rows)
    fault = _first_fault(validate(spec, world, frame))
    if fault is None:
        return {}
    if len(batch) == 1:
        return {batch[0]: fault}
    single = {ds: _batch_faults(spec, world, staging, staged, [ds], 0) for ds in batch}
    return {ds: found[ds] for ds, found in single.items() if found}


def _frame(
    spec: "TableSpec", staging: Path, staged: "DataFrame", batch: list[str], rows: int
) -> "pd.DataFrame | DataFrame":
    if rows > PANDAS_ROWS:
        return staged.where(staged[spec.partition].isin(batch)).persist()
    import pyarrow as pa
    import pyarrow.dataset as pads

    files = sorted(str(path) for ds in batch for path in (staging / f"{spec.partition}={ds}").glob("*.parquet"))
    # nullable types: 64-bit ids stay exact beside a null
    days = pads.partitioning(pa.schema([(spec.partition, pa.string())]), flavor="hive")
    rows_read = pads.dataset(files, format="parquet", partitioning=days).to_table()
    return rows_read.to_pandas(types_mapper=_nullable_types().get)


def _nullable_types() -> dict[Any, Any]:
    import pandas as pd
    import pyarrow as pa

    return {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype(), pa.string(): pd.StringDtype()}


def validate(spec: "TableSpec", world: World, frame: "pd.DataFrame | DataFrame") -> "ExpectationSuiteValidationResult":
    """Run a table's suite over a pandas or Spark frame.

    Raises:
        GemlineError: the suite is empty.
    """
    import great_expectations as gx

    suite = gx.ExpectationSuite(name=spec.name, expectations=suite_of(spec, world))
    batch = _batch_definition(_is_pandas(frame)).get_batch(batch_parameters={"dataframe": frame})
    return batch.validate(suite, result_format={"result_format": "COMPLETE"})


@cache
def _batch_definition(on_pandas: bool) -> "BatchDefinition":
    """One context a process: each makes a temporary folder of its own."""
    import great_expectations as gx

    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    source = context.data_sources.add_pandas("staged") if on_pandas else context.data_sources.add_spark("staged")
    return source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("days")


def _is_pandas(frame: object) -> bool:
    return type(frame).__module__.startswith("pandas.")


def _first_fault(result: "ExpectationSuiteValidationResult") -> Fault | None:
    for entry in result.results:
        config = entry.expectation_config
        if entry.success or config is None or config.severity != "critical":
            continue
        details = config.kwargs | entry.result
        columns = details.get("column") or details.get("column_list") or ""
        sample = details.get("unexpected_list") or details.get("partial_unexpected_list") or entry.exception_info
        text = ", ".join(map(str, sample[:SAMPLE_ROWS])) if isinstance(sample, list) else str(sample)[:300]
        return str(config.type), f"column {columns}: {text}"
    return None
