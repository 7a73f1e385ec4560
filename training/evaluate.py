"""Evaluation tables, streamed: metrics by task and slice with counts and intervals; paired comparisons.

Rows come as one frame or as an iterator of batches, and memory does not grow with them: a first pass codes each batch,
adds it to histograms of scores (`score_histogram`) and keeps its records aside by unit (`spill`); a second one sums
whole users and requests a part at a time, on the rows and on every resample (`unit_sums`).

A slice with fewer than `n_min` positives shows its counts and no values, since values from a handful of
clicks look like facts. A slice of one class keeps what is defined for it (log-loss, calibration) and says why
the rest is not.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from features.days import shift
from features.errors import GemlineError
from training.bootstrap import Estimate
from training.metrics import FAULTS, Counts, Reason, Sample
from training.score_histogram import ReliabilityBin, ScoreHistogram, bins_of
from training.scored_rows import Coder, Rows, batches_of, wanted_columns
from training.slice_metrics import METRICS, SliceView
from training.slices import ALL, DAY, SURFACE, Dimension, dimensions
from training.spill import Spill
from training.unit_sums import Adder, most_units

if TYPE_CHECKING:
    import pyarrow as pa

KEY = ["ds", "impression_id", "task"]
"""What a prediction is for; unique in any table of predictions of one model."""
RESAMPLES = 500
_PLOTTED = (ALL, SURFACE)
"""Slices with a reliability plot."""
_NEEDS = {"gauc_request": "request_id", "value_ne": "value", "value_calibration": "value"}
"""Metrics that are left out where a column is absent or empty."""


@dataclass(frozen=True)
class MetricRow:
    """Metrics of one slice, or of one paired comparison on it.

    Attributes:
        task: the task.
        by: what the slice is a slice by: `all`, `surface`, `user_frequency`, `ad_frequency` or `day`.
        value: of that, None for all rows of the task.
        first_day: earliest `ds` of the rows, None without rows.
        last_day: latest `ds` of the rows, None without rows.
        counts: the evidence.
        status: `ok`, `insufficient (n)` with n positives, or `undefined (reason)`.
        estimates: by metric name; empty when insufficient.
        reliability: bins of about equal weight; only for all rows and surfaces, of one model, with status `ok`.
    """

    task: str
    by: str
    value: str | None
    first_day: str | None
    last_day: str | None
    counts: Counts
    status: str
    estimates: dict[str, Estimate] = field(default_factory=dict)
    reliability: tuple[ReliabilityBin, ...] = ()


def evaluate(
    rows: Rows,
    n_min: int,
    resamples: int = RESAMPLES,
    seed: int = 0,
    expected: Iterable[str] = (),
    day: str = "ds",
) -> list[MetricRow]:
    """Metrics of one model's predictions; days that the rows hold are pooled.

    Args:
        rows: a frame, or batches of one (pandas or Arrow): columns surface, task, user_id (nullable), ds, label,
            weight, prediction. As far as they are there: impression_id (pairs are checked to be unique), request_id
            (GAUC by request), value (value-weighted metrics), user_seen and ad_seen (slices by frequency).
        n_min: positives below which a slice is insufficient.
        resamples: bootstrap resamples of users.
        seed: of the resamples.
        expected: tasks that are shown even when no row is of them.
        day: column of the slices by day.

    Returns:
        For each task a row over all its rows, then one for each surface, bucket of frequency, and day of several.

    Raises:
        GemlineError: a column is missing, a pair is there twice, or a label or weight is malformed.
    """
    return _table(rows, ("prediction",), n_min, resamples, seed, expected, day, SliceView.estimates)


def compare(rows: Rows, n_min: int, resamples: int = RESAMPLES, seed: int = 0, day: str = "ds") -> list[MetricRow]:
    """Two predictions of the same rows: A (`prediction`) against B (`prediction_b`), on the same resamples.

    Args:
        rows: as for `evaluate`, and a column prediction_b; `paired_rows` makes them of two tables.
        n_min: positives below which a slice is insufficient.
        resamples: bootstrap resamples of users, the same for A and B.
        seed: of the resamples.
        day: column of the slices by day.

    Returns:
        Slices as of `evaluate`; NE of both, differences A minus B, and the ratio of NE, A over B.
    """
    return _table(rows, ("prediction", "prediction_b"), n_min, resamples, seed, (), day, SliceView.comparison)


def as_served(
    rows: pd.DataFrame,
    last_day: str,
    days: int,
    n_min: int,
    resamples: int = RESAMPLES,
    expected: Iterable[str] = (),
    day: str = "ds",
) -> list[MetricRow]:
    """Predictions made before training on their pairs, pooled over the `days` days up to `last_day`.

    Args:
        rows: a frame as for `evaluate`, of any days.
        last_day: newest day that counts.
        days: how many days count, `last_day` included.
        n_min: positives below which a slice is insufficient.
        resamples: bootstrap resamples of users.
        expected: tasks that are shown even when no row is of them.
        day: what places a row: `ds`, the day of the impression, or `label_ds`, the day its label was known.

    Raises:
        GemlineError: as `evaluate`.
    """
    if day not in rows:
        raise GemlineError(f"evaluation rows lack {day}; they hold {', '.join(map(str, rows.columns))}")
    window = rows[rows[day].between(shift(last_day, 1 - days), last_day)]
    return evaluate(window, n_min, resamples, expected=expected, day=day)


def sample_of(rows: pd.DataFrame, prediction: str = "prediction") -> Sample:
    """Label, weight and one prediction column as arrays; a null prediction becomes NaN, hence a fault."""
    columns = ("label", prediction, "weight")
    return Sample.of(*(rows[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in columns))


def paired_rows(rows_a: pd.DataFrame, rows_b: pd.DataFrame) -> pd.DataFrame:
    """Rows of A with B's prediction beside them as `prediction_b`, for `compare`.

    Args:
        rows_a: columns as for `evaluate`, and impression_id.
        rows_b: columns ds, impression_id, task, label, weight, prediction, in any order of rows.

    Raises:
        GemlineError: the two do not hold the same pairs with the same labels and weights.
    """
    for rows in (rows_a, rows_b):
        if missing := [name for name in (*KEY, "label", "weight", "prediction") if name not in rows]:
            raise GemlineError(f"a paired comparison needs {', '.join(missing)}, which a table lacks")
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
    return joined.drop(columns=["label_b", "weight_b", "side"])


def _table(
    rows: Rows,
    predictions: tuple[str, ...],
    n_min: int,
    resamples: int,
    seed: int,
    expected: Iterable[str],
    day: str,
    measured: Callable[[SliceView, tuple[str, ...]], dict[str, Estimate]],
) -> list[MetricRow]:
    ways = dimensions(day)
    batches = batches_of(rows, wanted_columns(predictions, ways))
    first = next(batches, None)
    if first is None:
        return [absent(task) for task in sorted(expected)]
    there = [way for way in ways if not way.column or way.column in first.column_names]
    coder = Coder(predictions, there, seed)
    with Spill(coder.dtype) as spill:
        histograms = _first_pass(chain([first], batches), coder, spill)
        sizes = [len(dimension.slices) for dimension in coder.dimensions]
        ranks = [
            tuple(histogram.finish(size) for histogram in sides) for sides, size in zip(histograms, sizes, strict=True)
        ]
        adder = Adder(ranks, sizes, len(coder.days.names), resamples, seed)
        for part in spill.parts(most_units(max(sizes))):
            adder.add(part)
    names = tuple(name for name in METRICS if name not in _NEEDS or _NEEDS[name] in coder.columns)
    found = [absent(task) for task in expected if task not in coder.tasks.names]
    for dimension, sums, sides in zip(coder.dimensions, adder.sums, ranks, strict=True):
        if dimension.by == DAY and len({value for _, value in dimension.slices}) == 1:
            continue  # it would say again what all rows say
        for place in sorted(range(len(dimension.slices)), key=dimension.order):
            view = SliceView(sums, sides, place)
            found.append(_row(dimension, view, coder.days.names, n_min, lambda view: measured(view, names)))
    # by task; within one as the dimensions come
    return sorted(found, key=lambda row: row.task)


def _first_pass(batches: "Iterable[pa.Table]", coder: Coder, spill: Spill) -> list[list[ScoreHistogram]]:
    histograms = [[ScoreHistogram() for _ in coder.predictions] for _ in coder.dimensions]
    for batch in batches:
        found, units = coder.records(batch)
        spill.add(units, found)
        for side in range(len(coder.predictions)):
            order = np.argsort(found["prediction"][:, side])
            score, label, weight = (
                column[order]
                for column in (found["prediction"][:, side], found["label"].astype(float), found["weight"])
            )
            bins = bins_of(score)
            for dimension, sides in enumerate(histograms):
                sides[side].add(found["slice"][order, dimension], bins, score, label, weight)
    return histograms


def _row(
    dimension: Dimension,
    view: SliceView,
    days: Sequence[str],
    n_min: int,
    measured: Callable[[SliceView], dict[str, Estimate]],
) -> MetricRow:
    size, fault = view.counts, view.fault
    seen = sorted(name for name, there in zip(days, view.sums.days[view.place], strict=True) if there)
    head: dict[str, Any] = dict(zip(("task", "value"), dimension.slices[view.place], strict=True))
    head |= {"by": dimension.by, "first_day": seen[0], "last_day": seen[-1], "counts": size}
    one_class = size.positives in (0, size.rows)
    if size.positives < n_min and not one_class and fault not in FAULTS:
        return MetricRow(**head, status=f"insufficient ({size.positives})")
    reason = view.two_class_fault
    plotted = reason is None and len(view.ranks) == 1 and dimension.by in _PLOTTED
    return MetricRow(
        **head,
        status=f"undefined ({reason})" if reason else "ok",
        estimates=measured(view),
        reliability=tuple(view.ranks[0].reliability(view.place)) if plotted else (),
    )


def absent(task: str) -> MetricRow:
    """The row of a task that no row is of."""
    return MetricRow(task, ALL, None, None, None, Counts(0, 0, 0.0, 0.0), f"undefined ({Reason.NO_ROWS})")
