"""From facts to the file: one HTML page with its style and charts inside, put in place at once."""

import os
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from features.home import Home
from orchestration.reporting.charts import Dot, Mark, line_chart, reliability_chart
from orchestration.reporting.evaluations import Slice
from orchestration.reporting.facts import Point, ReportFacts, Series

TEMPLATE = "report.html.j2"
NAMES = {
    "ne": "NE",
    "auc": "AUC",
    "gauc": "GAUC by user",
    "gauc_request": "GAUC by request",
    "calibration": "calibration",
    "log_loss": "log loss",
    "value_ne": "value NE",
    "value_calibration": "value calibration",
    "ne_a": "NE, own",
    "ne_b": "NE, other",
    "ne_ratio": "NE ratio",
    "ne_difference": "NE difference",
    "auc_difference": "AUC difference",
    "gauc_difference": "GAUC by user difference",
    "gauc_request_difference": "GAUC by request difference",
    "calibration_difference": "calibration difference",
    "log_loss_difference": "log loss difference",
    "value_ne_difference": "value NE difference",
}
"""Metrics in the order of columns, and how a reader knows them."""
CHARTED = {"ne": 1.0, "auc": 0.5, "calibration": 1.0}
"""Metrics drawn over days, and the value of each that a dashed line marks."""
SLICED_BY = {
    "all": "all",
    "surface": "surface",
    "user_frequency": "user seen before",
    "ad_frequency": "ad seen before",
    "day": "due on",
}
"""What tables are sliced by, for a reader."""
DAYS_LISTED = 14
"""Newest judged days whose numbers are printed below the charts, which show all of them."""


def report_file(home: Home, ds: str) -> Path:
    """Where a day's report is kept."""
    return home.root / "reports" / f"{ds}.html"


def write_report(facts: ReportFacts, path: Path) -> Path:
    """Write the report; a reader sees the old file or the whole new one.

    Args:
        facts: what it shows; the same facts give the same bytes.
        path: of the file; its folder is made when it is not there.

    Returns:
        The path.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(render(facts), encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def render(facts: ReportFacts) -> str:
    """The page as text. Everything from outside is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # unlike `format`, these show every count with separators and every number with as many digits as it needs
    environment.filters |= {"count": lambda number: f"{number:,}", "short": lambda number: f"{number:.4g}"}
    tools: Mapping[str, Any] = {
        "names": NAMES,
        "sliced_by": SLICED_BY,
        "columns": columns,
        "charts": charts,
        "reliability": reliability,
        "days_listed": DAYS_LISTED,
    }
    return environment.get_template(TEMPLATE).render(facts=facts, **tools)


def columns(rows: Sequence[Slice]) -> list[str]:
    """Metrics that some row of a table has, in the order of `NAMES`."""
    return [name for name in NAMES if any(name in row.estimates for row in rows)]


def charts(facts: ReportFacts, line: str, series: Series) -> list[Markup]:
    """Charts of NE, AUC and calibration of a task."""
    suffix = " (synthetic data)" if facts.synthetic else ""
    return [
        line_chart(
            [_mark(point, metric) for point in series.points],
            f"{NAMES[metric]} of {series.task}, {line}{suffix}",
            baseline,
        )
        for metric, baseline in CHARTED.items()
    ]


def reliability(facts: ReportFacts, line: str, row: Slice) -> Markup:
    """Chart of what was predicted against what came true in a slice."""
    suffix = " (synthetic data)" if facts.synthetic else ""
    dots = [
        Dot(found.predicted, found.observed, f"{found.rows:,} rows, {found.positives:,} positives")
        for found in row.reliability
    ]
    return reliability_chart(dots, f"Reliability of {row.task}, {row.value or 'all'}, {line}{suffix}")


def _mark(point: Point, metric: str) -> Mark:
    place = date.fromisoformat(point.ds).toordinal()
    if point.slice is None:
        return Mark(place, point.ds, None, note=point.note)
    found = point.slice.estimates.get(metric)
    if found is None or found.value is None:
        return Mark(place, point.ds, None, note=found.reason if found else point.slice.status)
    evidence = f"{point.slice.rows:,} rows, {point.slice.positives:,} positives"
    return Mark(place, point.ds, found.value, found.low, found.high, evidence)
