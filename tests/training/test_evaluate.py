"""Evaluation tables: slices, thresholds, undefined days (B18), paired comparison, rendering."""

import json

import numpy as np
import pandas as pd
import pytest

from features.errors import GemlineError
from training import metrics
from training.evaluate import MetricRow, as_served, compare, evaluate, paired_rows
from training.evaluation_text import to_json, to_markdown
from training.metrics import Sample


def day(seed: int = 0, n: int = 800, ds: str = "2017-06-01") -> pd.DataFrame:
    """Rows of one day: two surfaces, two tasks, some users unknown."""
    rng = np.random.default_rng(seed)
    prediction = rng.beta(1, 4, n)
    rows = pd.DataFrame({"ds": ds, "impression_id": np.arange(n), "prediction": prediction})
    rows["surface"] = rng.choice(["mailer", "display"], n)
    rows["user_id"] = pd.Series(rng.integers(0, 50, n), dtype="Int64").mask(rng.random(n) < 0.1)
    rows["task"] = np.where(np.arange(n) % 4 == 0, "rebought", "purchase")
    rows["label"] = (rng.random(n) < prediction).astype(float)
    rows["weight"] = np.where(rows["label"] == 1, 1.0, 20.0)
    return rows


def at(table: list[MetricRow], task: str, value: str | None = None, by: str | None = None) -> MetricRow:
    """The one row of a slice: of all rows, of a surface, or of another dimension."""
    kind = by or ("all" if value is None else "surface")
    (row,) = [row for row in table if (row.task, row.by, row.value) == (task, kind, value)]
    return row


def compared(first: pd.DataFrame, second: pd.DataFrame, n_min: int, resamples: int = 50) -> list[MetricRow]:
    """Two tables of predictions against each other."""
    return compare(paired_rows(first, second), n_min, resamples)


def test_every_slice_has_counts_and_the_metrics_of_its_rows() -> None:
    rows = day()
    table = evaluate(rows, n_min=5, resamples=50)
    assert [(row.task, row.by, row.value) for row in table] == [
        (task, by, value)
        for task in ("purchase", "rebought")
        for by, value in (("all", None), ("surface", "display"), ("surface", "mailer"))
    ]
    part = rows[(rows["task"] == "purchase") & (rows["surface"] == "mailer")]
    sample = Sample.of(part["label"], part["prediction"], part["weight"])
    found = at(table, "purchase", "mailer")
    assert found.status == "ok"
    assert found.counts == metrics.counts(sample)
    assert found.estimates["ne"].value.number == pytest.approx(metrics.normalized_entropy(sample).number)
    assert found.estimates["auc"].value.number == pytest.approx(metrics.auc(sample).number, abs=1e-6)
    users = pd.factorize(part["user_id"])[0]
    assert found.estimates["gauc"].value.number == pytest.approx(metrics.gauc(sample, users).number)
    for estimate in found.estimates.values():
        assert estimate.interval is not None
        assert estimate.value.number is not None
        assert estimate.interval.low <= estimate.value.number <= estimate.interval.high


def test_too_few_positives_show_counts_and_no_values() -> None:
    rows = day()
    positives = int(rows.loc[(rows["task"] == "rebought") & (rows["surface"] == "mailer"), "label"].sum())
    found = at(evaluate(rows, n_min=positives + 1, resamples=20), "rebought", "mailer")
    assert found.status == f"insufficient ({positives})"
    assert found.counts.positives == positives
    assert found.estimates == {}
    enough = at(evaluate(rows, n_min=positives, resamples=20), "rebought", "mailer")
    assert enough.status == "ok"


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_day_of_one_class_is_undefined_with_counts_and_what_is_defined(label: float) -> None:
    rows = day(n=50).assign(task="purchase", label=label, weight=1.0)
    found = at(evaluate(rows, n_min=10, resamples=20), "purchase")
    assert found.status == "undefined (one class)"
    assert found.counts.rows == 50
    assert not found.estimates["ne"].value.defined
    assert not found.estimates["auc"].value.defined
    assert found.estimates["log_loss"].interval is not None
    assert found.estimates["calibration"].value.defined == bool(label)


def test_day_without_rows_is_shown_when_expected() -> None:
    (found,) = evaluate(day().iloc[:0], n_min=10, expected=["purchase"])
    assert found.status == "undefined (no rows)"
    assert (found.counts.rows, found.first_day) == (0, None)
    assert evaluate(day().iloc[:0], n_min=10) == []


def test_surface_of_only_zeros_leaves_the_others_their_values() -> None:
    rows = day()
    rows.loc[rows["surface"] == "mailer", "label"] = 0.0
    table = evaluate(rows, n_min=5, resamples=20)
    assert at(table, "purchase", "mailer").status == "undefined (one class)"
    assert at(table, "purchase", "display").status == "ok"
    assert at(table, "purchase").status == "ok"


def test_missing_prediction_is_undefined_even_where_positives_are_few() -> None:
    rows = day()
    rows.loc[rows.index[1], "prediction"] = np.nan
    for n_min in (5, 10_000):
        assert at(evaluate(rows, n_min, resamples=20), "purchase").status == "undefined (non-finite prediction)"


def test_as_served_pools_the_window_only() -> None:
    days = pd.concat([day(i, ds=f"2017-06-0{i}") for i in range(1, 6)])
    found = at(as_served(days, "2017-06-04", 3, n_min=5, resamples=20), "purchase")
    assert (found.first_day, found.last_day) == ("2017-06-02", "2017-06-04")
    inside = days[days["ds"].between("2017-06-02", "2017-06-04")]
    assert found.estimates == at(evaluate(inside, 5, 20), "purchase").estimates
    known = days.assign(label_ds="2017-06-09")
    late = at(as_served(known, "2017-06-09", 1, 5, 20, day="label_ds"), "purchase")
    assert late.counts.rows == (days["task"] == "purchase").sum()


def test_the_same_pair_twice_is_refused() -> None:
    rows = pd.concat([day(), day().iloc[:3]])
    with pytest.raises(GemlineError, match="3 evaluation rows are there twice"):
        evaluate(rows, n_min=5)


def test_missing_column_is_named() -> None:
    with pytest.raises(GemlineError, match="lack surface, weight"):
        evaluate(day().drop(columns=["surface", "weight"]), n_min=5)


def test_compare_pairs_rows_whatever_their_order() -> None:
    rows = day()
    worse = rows.assign(prediction=np.random.default_rng(0).permutation(rows["prediction"]))
    found = at(compared(rows, worse.sample(frac=1.0, random_state=1), 5, 100), "purchase")
    first, second = (
        metrics.normalized_entropy(Sample.of(part["label"], part["prediction"], part["weight"])).number
        for part in (rows[rows["task"] == "purchase"], worse[worse["task"] == "purchase"])
    )
    assert first is not None
    assert second is not None
    assert found.estimates["ne_difference"].value.number == pytest.approx(first - second)
    assert found.estimates["ne_ratio"].value.number == pytest.approx(first / second)
    assert found.estimates["ne_difference"].interval is not None
    assert found.estimates["ne_difference"].interval.high < 0
    assert found.estimates["auc_difference"].interval is not None
    assert found.estimates["auc_difference"].interval.low > 0


def test_compare_refuses_rows_that_differ() -> None:
    rows = day()
    with pytest.raises(GemlineError, match=r"2 of .* only in the first table"):
        paired_rows(rows, rows.iloc[2:])
    with pytest.raises(GemlineError, match=r"1 of .* only in the second table"):
        paired_rows(rows.iloc[1:], rows)
    with pytest.raises(GemlineError, match="the label of 800 pairs differs"):
        paired_rows(rows, rows.assign(label=1 - rows["label"]))
    with pytest.raises(GemlineError, match="the weight of 800 pairs differs"):
        paired_rows(rows, rows.assign(weight=rows["weight"] * 2))


def test_compare_on_few_positives_or_one_class_gives_no_difference() -> None:
    rows = day()
    assert at(compared(rows, rows, 10_000), "purchase").status.startswith("insufficient (")
    zeros = rows.assign(label=0.0)
    found = at(compared(zeros, zeros, 5), "purchase")
    assert found.status == "undefined (one class)"
    assert not found.estimates["ne_difference"].value.defined
    broken = rows.assign(prediction=np.nan)
    assert at(compared(rows, broken, 10_000), "purchase").status == "undefined (non-finite prediction)"


def test_tables_render_to_strict_json_and_markdown() -> None:
    rows = day()
    rows.loc[rows["surface"] == "mailer", "label"] = 0.0
    table = evaluate(rows, n_min=5, resamples=20)
    plain = json.loads(json.dumps(to_json(table), allow_nan=False))
    mailer = next(row for row in plain if (row["task"], row["value"]) == ("purchase", "mailer"))
    assert mailer["metrics"]["auc"] == {"value": None, "low": None, "high": None, "reason": "one class"}
    whole = next(row for row in plain if (row["task"], row["value"]) == ("purchase", None))
    assert whole["rows"] == 600
    assert whole["metrics"]["gauc"]["groups"] > 10
    text = to_markdown(table)
    lines = text.splitlines()
    assert len(lines) == 2 + len(table)
    assert len({line.count("|") for line in lines}) == 1
    assert "undefined (one class)" in text
    assert "nan" not in text.lower()
    assert "ne_ratio" in to_markdown(compared(rows, rows, 5, 20))
