"""Evaluation tables as plain values for `json.dumps` and as Markdown; what has no value says why in both."""

from collections.abc import Iterable
from typing import Any

from training.bootstrap import Estimate
from training.evaluate import MetricRow
from training.slice_metrics import COMPARISONS, METRICS

_ORDER = (*METRICS, "ne_a", "ne_b", *COMPARISONS)
_GROUPS = {"gauc": "users", "gauc_request": "requests"}


def to_json(table: Iterable[MetricRow]) -> list[dict[str, Any]]:
    """The table as plain values; an absent number is None and has a `reason`."""
    return [_row_json(row) for row in table]


def estimate_json(estimate: Estimate) -> dict[str, Any]:
    """Value, ends of the interval, groups of an average, bound of an error, and reasons as plain values."""
    value, interval = estimate.value, estimate.interval
    found: dict[str, Any] = {
        "value": value.number,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }
    found |= {name: getattr(value, name) for name in ("groups", "skipped", "error") if getattr(value, name) is not None}
    reason = value.reason or estimate.missing
    return {**found, "reason": str(reason)} if reason else found


def to_markdown(table: Iterable[MetricRow]) -> str:
    """The table for people: values with 95 % intervals, counts, and the status where there is no value."""
    rows = list(table)
    names = [name for name in _ORDER if any(name in row.estimates for row in rows)]
    head = ["task", "by", "slice", "days", "rows", "positives", *names, "status"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        days = row.first_day if row.first_day == row.last_day else f"{row.first_day} to {row.last_day}"
        counts = (f"{row.counts.rows:,}", f"{row.counts.positives:,}")
        cells = [row.task, row.by, row.value or "all", days or "", *counts]
        lines.append([*cells, *(_cell(name, row.estimates.get(name)) for name in names), row.status])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def reliability_markdown(table: Iterable[MetricRow]) -> str:
    """Reliability of all rows of each task: bins of equal weight, what was predicted in each and what came true."""
    lines = [["task", "bin", "predicted", "observed", "observed / predicted", "rows", "positives"]]
    lines.append(["---"] * len(lines[0]))
    for row in table:
        for place, found in enumerate(row.reliability if row.value is None else (), 1):
            ratio = f"{found.observed / found.predicted:.3f}" if found.predicted > 0 else "undefined (predicted 0)"
            numbers = (f"{found.predicted:.5f}", f"{found.observed:.5f}", ratio)
            lines.append([row.task, str(place), *numbers, f"{found.rows:,}", f"{found.positives:,}"])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _row_json(row: MetricRow) -> dict[str, Any]:
    head = {name: getattr(row, name) for name in ("task", "by", "value", "first_day", "last_day", "status")}
    metrics = {name: estimate_json(found) for name, found in row.estimates.items()}
    return {**head, **vars(row.counts), "metrics": metrics, "reliability": [vars(found) for found in row.reliability]}


def _cell(name: str, estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    value = estimate.value
    groups = "" if value.groups is None else f" ({value.groups:,} {_GROUPS[name]}, {value.skipped:,} of one class)"
    if estimate.interval is None:
        return f"{value}{groups}"
    return f"{value} [{estimate.interval.low:.4f}, {estimate.interval.high:.4f}]{groups}"
