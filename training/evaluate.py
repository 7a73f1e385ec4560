"""Evaluation tables: metrics by task and by (surface, task), with counts and intervals; paired comparisons.

A slice with fewer than `n_min` positives shows its counts and no values, since values from a handful of
clicks look like facts. A slice of one class keeps what is defined for it (log-loss, calibration) and says why
the rest is not.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from features.days import shift
from features.errors import GemlineError
from training.bootstrap import Estimate, Paired, estimates, paired
from training.metrics import FAULTS, Counts, Reason, Sample, counts

KEY = ["ds", "impression_id", "task"]
"""What a prediction is for; unique in any table of predictions of one model."""

METRICS = ("ne", "auc", "gauc", "calibration", "log_loss")
COMPARISONS = ("ne_difference", "ne_ratio", "auc_difference")
_COLUMNS = ["surface", "task", "user_id", "ds", "label", "weight", "prediction"]


@dataclass(frozen=True)
class MetricRow:
    """Metrics of one slice, or of one paired comparison on it.

    Attributes:
        task: the task.
        surface: the surface, None for all surfaces together.
        first_day: earliest `ds` of the rows, None without rows.
        last_day: latest `ds` of the rows, None without rows.
        counts: the evidence.
        status: `ok`, `insufficient (n)` with n positives, or `undefined (reason)`.
        estimates: by metric name; empty when insufficient.
    """

    task: str
    surface: str | None
    first_day: str | None
    last_day: str | None
    counts: Counts
    status: str
    estimates: dict[str, Estimate] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dumps`; an absent value is None and has a `reason`."""
        head = {name: getattr(self, name) for name in ("task", "surface", "first_day", "last_day", "status")}
        return {
            **head,
            **vars(self.counts),
            "metrics": {k: estimate_json(v) for k, v in self.estimates.items()},
        }


def evaluate(
    rows: pd.DataFrame,
    n_min: int,
    resamples: int = 500,
    seed: int = 0,
    expected: Iterable[tuple[str, str | None]] = (),
) -> list[MetricRow]:
    """Metrics of one model's predictions; days that the rows hold are pooled.

    Args:
        rows: columns surface, task, user_id (nullable), ds, label, weight, prediction; with impression_id,
            pairs are checked to be unique.
        n_min: positives below which a slice is insufficient.
        resamples: bootstrap resamples of users.
        seed: of the resamples.
        expected: slices (task, surface or None) that are shown even when no row is in them.

    Returns:
        For each task a row over all surfaces, then one for each surface.

    Raises:
        GemlineError: a column is missing, a pair is there twice, or a label or weight is malformed.
    """
    _require(rows, _COLUMNS)
    _refuse_duplicates(rows)
    return [
        _slice(key, part, n_min, lambda part: _estimates_of(part, resamples, seed))
        for key, part in _slices(rows, expected)
    ]


def as_served(
    rows: pd.DataFrame,
    last_day: str,
    days: int,
    n_min: int,
    resamples: int = 500,
    seed: int = 0,
    day_column: str = "ds",
) -> list[MetricRow]:
    """Predictions made before training on their pairs, pooled over the `days` days up to `last_day`.

    Args:
        rows: as for `evaluate`, of any days.
        last_day: newest day that counts.
        days: how many days count, `last_day` included.
        n_min: positives below which a slice is insufficient.
        resamples: bootstrap resamples of users.
        seed: of the resamples.
        day_column: what places a row: `ds`, the day of the impression, or `label_ds`, the day its label was
            known.

    Raises:
        GemlineError: as `evaluate`.
    """
    return evaluate(_window(rows, last_day, days, day_column), n_min, resamples, seed)


def compare(
    rows_a: pd.DataFrame, rows_b: pd.DataFrame, n_min: int, resamples: int = 500, seed: int = 0
) -> list[MetricRow]:
    """A against B on identical pairs: `ne_difference`, `auc_difference` are A minus B, `ne_ratio` A over B.

    Args:
        rows_a: columns as for `evaluate`, and impression_id.
        rows_b: columns ds, impression_id, task, label, weight, prediction, in any order of rows.
        n_min: positives below which a slice is insufficient.
        resamples: bootstrap resamples of users, the same for A and B.
        seed: of the resamples.

    Raises:
        GemlineError: the two do not hold the same pairs with the same labels and weights.
    """
    _require(rows_a, [*_COLUMNS, "impression_id"])
    _require(rows_b, [*KEY, "label", "weight", "prediction"])
    joined = _identical_rows(rows_a, rows_b)
    return [
        _slice(key, part, n_min, lambda part: _paired_estimates(part, resamples, seed))
        for key, part in _slices(joined, ())
    ]


def sample_of(rows: pd.DataFrame, prediction: str = "prediction") -> Sample:
    """Label, weight and one prediction column as arrays; a null prediction becomes NaN, hence a fault."""
    columns = ("label", prediction, "weight")
    return Sample.of(*(rows[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in columns))


def to_json(table: Iterable[MetricRow]) -> list[dict[str, Any]]:
    """The table as plain values."""
    return [row.to_json() for row in table]


def to_markdown(table: Iterable[MetricRow]) -> str:
    """The table for people: values with 95 % intervals, counts, and the status where there is no value."""
    rows = list(table)
    names = [name for name in METRICS + COMPARISONS if any(name in row.estimates for row in rows)]
    head = ["task", "surface", "days", "rows", "positives", *names, "status"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        days = row.first_day if row.first_day == row.last_day else f"{row.first_day} to {row.last_day}"
        cells = [
            row.task,
            row.surface or "all",
            days or "",
            f"{row.counts.rows:,}",
            f"{row.counts.positives:,}",
        ]
        lines.append([*cells, *(_cell(row.estimates.get(name)) for name in names), row.status])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def estimate_json(estimate: Estimate) -> dict[str, Any]:
    """Value, ends of the interval and reasons as plain values."""
    interval = estimate.interval
    found: dict[str, Any] = {
        "value": estimate.value.number,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }
    if estimate.value.groups is not None:
        found["groups"] = estimate.value.groups
    reason = estimate.value.reason or estimate.missing
    return {**found, "reason": str(reason)} if reason else found


def _cell(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    groups = "" if estimate.value.groups is None else f" ({estimate.value.groups:,} users)"
    if estimate.interval is None:
        return f"{estimate.value}{groups}"
    return f"{estimate.value} [{estimate.interval.low:.4f}, {estimate.interval.high:.4f}]{groups}"


def _slices(
    rows: pd.DataFrame, expected: Iterable[tuple[str, str | None]]
) -> Iterator[tuple[tuple[str, str | None], pd.DataFrame]]:
    found: dict[tuple[str, str | None], pd.DataFrame] = {}
    for task, of_task in rows.groupby("task"):
        found[str(task), None] = of_task
        for surface, part in of_task.groupby("surface"):
            found[str(task), str(surface)] = part
    for key in expected:
        found.setdefault(key, rows.iloc[:0])
    for key in sorted(found, key=lambda key: (key[0], key[1] or "")):
        yield key, found[key]


def _slice(
    key: tuple[str, str | None],
    part: pd.DataFrame,
    n_min: int,
    measure: Callable[[pd.DataFrame], tuple[Reason | None, dict[str, Estimate]]],
) -> MetricRow:
    size = counts(sample_of(part))
    first, last = (str(part["ds"].min()), str(part["ds"].max())) if size.rows else (None, None)
    one_class = size.positives in (0, size.rows)
    if size.rows and size.positives < n_min and not one_class and not _faulty(part):
        return MetricRow(*key, first, last, size, f"insufficient ({size.positives})")
    reason, found = measure(part)
    return MetricRow(*key, first, last, size, f"undefined ({reason})" if reason else "ok", found)


def _faulty(part: pd.DataFrame) -> bool:
    predictions = [name for name in ("prediction", "prediction_b") if name in part]
    return any(sample_of(part, name).fault() in FAULTS for name in predictions)


def _estimates_of(part: pd.DataFrame, resamples: int, seed: int) -> tuple[Reason | None, dict[str, Estimate]]:
    sample = sample_of(part)
    return sample.two_class_fault(), estimates(sample, part["user_id"], resamples, seed)


def _paired_estimates(part: pd.DataFrame, resamples: int, seed: int) -> tuple[Reason | None, dict[str, Estimate]]:
    first, second = sample_of(part), sample_of(part, "prediction_b")
    pair: Paired = paired(first, second, part["user_id"], resamples, seed)
    reason = first.two_class_fault() or second.two_class_fault()
    return reason, {name: getattr(pair, name) for name in COMPARISONS}


def _window(rows: pd.DataFrame, last_day: str, days: int, day_column: str) -> pd.DataFrame:
    _require(rows, [day_column])
    return rows[rows[day_column].between(shift(last_day, 1 - days), last_day)]


def _require(rows: pd.DataFrame, columns: list[str]) -> None:
    if missing := [name for name in columns if name not in rows]:
        raise GemlineError(f"evaluation rows lack {', '.join(missing)}; they hold {', '.join(map(str, rows.columns))}")


def _refuse_duplicates(rows: pd.DataFrame) -> None:
    if "impression_id" in rows and (twice := rows.duplicated(KEY)).any():
        example = tuple(rows.loc[twice, KEY].iloc[0].tolist())
        raise GemlineError(
            f"{int(twice.sum())} evaluation rows are there twice, such as {example} of {tuple(KEY)}; "
            "choose one prediction a pair, for instance by digest"
        )


def _identical_rows(rows_a: pd.DataFrame, rows_b: pd.DataFrame) -> pd.DataFrame:
    """Rows of A with B's prediction beside them as `prediction_b`."""
    _refuse_duplicates(rows_a)
    _refuse_duplicates(rows_b)
    other = rows_b[[*KEY, "label", "weight", "prediction"]]
    joined = rows_a.merge(other, on=KEY, how="outer", suffixes=("", "_b"), indicator="side")
    for side, name in (("left_only", "first"), ("right_only", "second")):
        lone = joined.loc[joined["side"] == side, KEY]
        if len(lone):
            raise GemlineError(
                f"a paired comparison needs identical rows, but {len(lone)} of (ds, impression_id, task) are "
                f"only in the {name} table, such as {tuple(lone.iloc[0].tolist())}; "
                "score both models on the same pairs"
            )
    for column in ("label", "weight"):
        differs = ~np.isclose(joined[column].astype(float), joined[f"{column}_b"].astype(float), equal_nan=True)
        if differs.any():
            raise GemlineError(
                f"a paired comparison needs identical rows, but the {column} of {int(differs.sum())} pairs "
                f"differs, such as {tuple(joined.loc[differs, KEY].iloc[0].tolist())}; "
                "join both to the same labels"
            )
    return joined
