"""Running a suite as a Great Expectations checkpoint that keeps its result and renders it for people.

Results are stored as JSON below `GEMLINE_HOME/<world>/quality/results`, and the Data Docs site below
`quality/site` is built from them; suites and checkpoints live in code and in memory only. A run is named by its
days and their content, never by the time of day, so the same audit again gives the same page.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from features.days import day_end
from features.home import Home
from features.worlds.schema import World

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations.core.batch_definition import BatchDefinition
    from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
    from great_expectations.data_context import AbstractDataContext
    from great_expectations.expectations import Expectation
    from pyspark.sql import DataFrame

SAMPLES = 20
"""Offending rows that a result holds."""
LISTED = 100
"""Results of the newest days that the site's index lists; every page is linked from its day's check."""


@dataclass(frozen=True)
class Validated:
    """Outcome of one checkpoint.

    Attributes:
        result: of each expectation.
        page: its page, relative to the site's folder.
    """

    result: "ExpectationSuiteValidationResult"
    page: str


def site(home: Home) -> Path:
    """Folder of the Data Docs; `index.html` lists the newest `LISTED` results."""
    return home.root / "quality" / "site"


def validate(
    home: Home,
    world: World,
    name: str,
    expectations: "Sequence[Expectation]",
    frame: "pd.DataFrame | DataFrame",
    days: Mapping[str, str],
    keys: Sequence[str],
    *,
    final: bool = False,
) -> Validated:
    """Run expectations over a pandas or Spark frame, keep the result and render it.

    Args:
        home: where results and pages go.
        world: gives the run's time, the end of its last day.
        name: of suite and checkpoint.
        expectations: not empty.
        frame: the rows.
        days: day -> content hash.
        keys: columns by which an offending row is shown.
        final: whether it ends an audit: all offending rows are named, not only `SAMPLES` of them, and the site's index,
            for which every result that it lists is read, is made again.
    """
    import great_expectations as gx
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import ExpectationSuiteIdentifier

    context = _context(home.root / "quality")
    rows = _rows(context, type(frame).__module__.startswith("pandas."))
    suite = context.suites.add_or_update(gx.ExpectationSuite(name=name, expectations=list(expectations)))
    made = gx.ValidationDefinition(name=name, data=rows, suite=suite)
    checkpoint = gx.Checkpoint(
        name=name,
        validation_definitions=[context.validation_definitions.add_or_update(made)],
        actions=[],
        result_format={
            "result_format": "COMPLETE" if final else "SUMMARY",
            "partial_unexpected_count": SAMPLES,
            "unexpected_index_column_names": list(keys),
        },
    )
    run = RunIdentifier(run_name=_run_name(days), run_time=day_end(max(days), world.timezone))
    ran = context.checkpoints.add_or_update(checkpoint).run(batch_parameters={"dataframe": frame}, run_id=run)
    key, result = next(iter(ran.run_results.items()))
    context.build_data_docs(resource_identifiers=[ExpectationSuiteIdentifier(name), key], build_index=final)
    return Validated(result, "/".join(["validations", *key.to_tuple()]) + ".html")


def _run_name(days: Mapping[str, str]) -> str:
    content = hashlib.sha256("".join(f"{ds}{digest}" for ds, digest in sorted(days.items())).encode()).hexdigest()
    first, last = min(days), max(days)
    return f"{first}_{content[:8]}" if first == last else f"{first}_{last}_{content[:8]}"


@cache
def _context(folder: Path) -> "AbstractDataContext":
    """One context a process and home."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations as gx
    from great_expectations.data_context.types.base import DataContextConfig, InMemoryStoreBackendDefaults

    config = DataContextConfig(store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False))
    config.stores["validation_results_store"] = {
        "class_name": "ValidationResultsStore",
        "store_backend": _files(folder / "results"),
    }
    config.data_docs_sites = {
        "local": {
            "class_name": "SiteBuilder",
            "show_how_to_buttons": False,
            "store_backend": _files(folder / "site"),
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder", "validation_results_limit": LISTED},
            # without this the limit would hold for pages, too: one of an old day would not be made
            "site_section_builders": {"validations": {"validation_results_limit": None}},
        }
    }
    context = gx.get_context(project_config=config, mode="ephemeral")
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    return context


def _files(folder: Path) -> dict[str, str]:
    return {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder)}


def _rows(context: "AbstractDataContext", on_pandas: bool) -> "BatchDefinition":
    name = "pandas" if on_pandas else "spark"
    if name not in context.data_sources.all():
        add = context.data_sources.add_pandas if on_pandas else context.data_sources.add_spark
        return add(name).add_dataframe_asset("rows").add_batch_definition_whole_dataframe("days")
    return context.data_sources.get(name).get_asset("rows").get_batch_definition("days")
