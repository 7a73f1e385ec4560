"""Streamed evaluation against explicit formulas: batches, resamples, ties, ids, values, requests, frequencies."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from features.errors import GemlineError
from training import metrics, scored_rows, spill
from training.bootstrap import UNITS, draws, units_of
from training.evaluate import MetricRow, compare, evaluate
from training.evaluation_text import reliability_markdown, to_json
from training.metrics import Reason, Sample
from training.score_histogram import ScoreHistogram, bins_of


def log(seed: int = 0, n: int = 3000, users: int = 60) -> pd.DataFrame:
    """Rows of one task on two surfaces: users whose own rates differ, requests of five rows, some without user."""
    rng = np.random.default_rng(seed)
    request = np.arange(n) // 5
    user = pd.Series(rng.integers(0, users, n // 5)[request], dtype="Int64").mask((rng.random(n // 5) < 0.05)[request])
    taste = rng.normal(0, 1, users)
    probability = 1 / (1 + np.exp(1.5 - taste[user.fillna(0).to_numpy(dtype=int)] - rng.normal(0, 1, n)))
    label = (rng.random(n) < probability).astype(float)
    return pd.DataFrame(
        {
            "ds": np.where(rng.random(n) < 0.5, "2024-03-07", "2024-03-08"),
            "task": "click",
            "surface": rng.choice(["feed", "story"], n),
            "impression_id": rng.permutation(n) + 2**60,
            "request_id": request,
            "user_id": user,
            "label": label,
            "weight": np.where(label == 1, 1.0, 5.0),
            "value": pd.Series(rng.exponential(1, n)).mask(rng.random(n) < 0.1),
            "prediction": np.round(probability, 2),
            "prediction_b": np.round(np.clip(probability * 1.1 + 0.02, 0, 1), 3),
            "user_seen": pd.Series(rng.integers(0, 12, n), dtype="Int64").mask(user.isna()),
            "ad_seen": rng.integers(0, 150, n),
        }
    )


def sample(rows: pd.DataFrame, by_value: bool = False, times: np.ndarray | None = None) -> Sample:
    """Rows as arrays, on request weighted by value too, or repeated."""
    weight = rows["weight"].to_numpy() * (rows["value"].fillna(0).to_numpy() if by_value else 1.0)
    return Sample.of(rows["label"], rows["prediction"], weight if times is None else weight * times)


def codes(rows: pd.DataFrame, column: str) -> np.ndarray:
    return pd.factorize(rows[column], sort=True)[0]


def values_of(rows: pd.DataFrame, times: np.ndarray | None = None) -> dict[str, metrics.Value]:
    """All metrics by the formulas for arrays."""
    plain, valued = sample(rows, times=times), sample(rows, True, times)
    return {
        "ne": metrics.normalized_entropy(plain),
        "auc": metrics.auc(plain),
        "gauc": metrics.gauc(plain, codes(rows, "user_id")),
        "gauc_request": metrics.gauc(plain, codes(rows, "request_id")),
        "calibration": metrics.calibration(plain),
        "log_loss": metrics.log_loss(plain),
        "value_ne": metrics.normalized_entropy(valued),
        "value_calibration": metrics.calibration(valued),
    }


def near(number: float | None) -> Any:
    return None if number is None else pytest.approx(number, rel=1e-9, abs=1e-9)


def whole(table: list[MetricRow]) -> MetricRow:
    return next(row for row in table if row.by == "all")


def in_batches(rows: pd.DataFrame, size: int, arrow: bool = False) -> Iterator[pd.DataFrame | pa.Table]:
    for start in range(0, len(rows), size):
        part = rows.iloc[start : start + size]
        yield pa.Table.from_pandas(part, preserve_index=False) if arrow else part


def test_every_slice_has_the_metrics_of_the_formulas() -> None:
    rows = log()
    buckets = {0: "0", 1: "1-9", 10: "10-99", 100: "100+"}

    def bucket(seen: pd.Series) -> pd.Series:
        return seen.map(lambda n: "unknown" if pd.isna(n) else buckets[max(step for step in buckets if step <= n)])

    rows = rows.assign(user_frequency=bucket(rows["user_seen"]), ad_frequency=bucket(rows["ad_seen"]), day=rows["ds"])
    table = evaluate(rows, n_min=1, resamples=20)
    assert [row.value for row in table if row.by == "user_frequency"] == ["0", "1-9", "10-99", "unknown"]
    for found in table:
        part = rows if found.by == "all" else rows[rows[found.by] == found.value]
        assert found.counts == metrics.counts(sample(part))
        for name, expected in values_of(part).items():
            value = found.estimates[name].value
            assert (value.number, value.reason) == (near(expected.number), expected.reason), (
                found.by,
                found.value,
                name,
            )
            assert (value.groups, value.skipped) == (expected.groups, expected.skipped)


def test_every_interval_is_that_of_explicitly_repeated_rows() -> None:
    rows = log().dropna(subset="user_id")
    found = whole(evaluate(rows, 1, resamples=60, seed=9)).estimates
    times = draws(60, 9)[:, units_of(rows["user_id"].to_numpy(dtype=np.int64), 9)]
    resampled = [values_of(rows, once) for once in times]
    for name, estimate in found.items():
        expected = np.quantile([value[name].number for value in resampled], [0.025, 0.975])
        assert estimate.interval is not None and estimate.value.number is not None
        # AUC is linear in the draws to first order only
        off = 0.1 * (expected[1] - expected[0]) if name == "auc" else 1e-9
        assert (estimate.interval.low, estimate.interval.high) == pytest.approx(tuple(expected), abs=off)
        assert estimate.interval.low < estimate.value.number < estimate.interval.high


@pytest.mark.parametrize("arrow", [False, True])
def test_batches_a_file_and_small_parts_change_nothing(arrow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = log().assign(request_id=lambda rows: rows["request_id"].astype("Int64").mask(rows.index % 7 == 0))
    once = evaluate(rows, 10, resamples=30)
    monkeypatch.setattr(spill, "IN_MEMORY", 1000)
    monkeypatch.setattr(spill, "PART_ROWS", 100)
    monkeypatch.setattr(scored_rows, "BATCH_ROWS", 500)
    monkeypatch.setattr("training.unit_sums._CELLS", 100)
    shuffled = rows.sample(frac=1.0, random_state=1)
    streamed = evaluate(in_batches(shuffled, 701, arrow), 10, resamples=30)
    assert [(row.by, row.value, row.counts, row.status) for row in streamed] == [
        (row.by, row.value, row.counts, row.status) for row in once
    ]
    for first, second in zip(once, streamed, strict=True):
        for name, estimate in first.estimates.items():
            other = second.estimates[name]
            assert other.value.number == near(estimate.value.number)
            assert (other.interval is None) == (estimate.interval is None)
            if other.interval and estimate.interval:
                assert other.interval.low == near(estimate.interval.low)
        assert [part.rows for part in first.reliability] == [part.rows for part in second.reliability]


def test_no_batch_and_empty_batches() -> None:
    rows = log()
    assert evaluate(iter(()), 1) == []
    assert evaluate(rows.iloc[:0], 1) == []
    parts = [rows.iloc[:0], rows.iloc[:1000], rows.iloc[:0], rows.iloc[1000:]]
    assert whole(evaluate(iter(parts), 1, 10)).counts == metrics.counts(sample(rows))


def test_ids_above_2_to_the_53_beside_a_null_stay_apart() -> None:
    """B02: as float64 both users would be 2 ** 62, and the pairs below would be of one user."""
    rows = (
        log()
        .iloc[:4]
        .assign(
            user_id=pd.array([2**62 + 1, 2**62 + 2, 2**62 + 2, None], dtype="Int64"),
            label=[1.0, 0.0, 1.0, 0.0],
            prediction=[0.1, 0.9, 0.95, 0.5],
        )
    )
    found = whole(evaluate(rows.drop(columns="request_id"), 1, 5)).estimates["gauc"].value
    assert (found.number, found.groups, found.skipped) == (1.0, 1, 1)


def test_the_same_pair_twice_is_found_across_batches() -> None:
    rows = log().drop(columns="request_id")
    twice = iter([rows, rows[rows["user_id"].isna()].iloc[:2], rows[rows["user_id"].notna()].iloc[:1]])
    with pytest.raises(GemlineError, match="3 evaluation rows are there twice"):
        evaluate(twice, 1)


def test_auc_is_exact_for_few_rows_or_ties_and_within_its_bound_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = log().assign(prediction=np.random.default_rng(2).random(3000))
    few = whole(evaluate(rows, 1, 0)).estimates["auc"].value
    assert few.number == near(metrics.auc(sample(rows)).number) and few.error == 0
    monkeypatch.setattr("training.score_histogram.MOST", 1000)
    rng = np.random.default_rng(0)
    n = 100_000
    for spread, bar in ((1.0, 1e-4), (0.2, 5e-4)):
        logit = rng.normal(-3, spread, n)
        p = 1 / (1 + np.exp(-logit))
        rows = log(n=10).iloc[np.zeros(n, dtype=int)].assign(impression_id=np.arange(n), prediction=p)
        rows["label"] = (rng.random(n) < p).astype(float)
        value = whole(evaluate(rows, 1, 0)).estimates["auc"].value
        exact = metrics.auc(sample(rows)).number
        assert value.number is not None and exact is not None and value.error is not None
        assert 0 < abs(value.number - exact) <= value.error < bar
        assert abs(value.number - exact) < 2e-6
    tied = rows.assign(prediction=np.round(p, 2))
    value = whole(evaluate(tied, 1, 0)).estimates["auc"].value
    assert value.number == pytest.approx(metrics.auc(sample(tied)).number, abs=1e-12)
    assert value.error == 0


def test_bins_ascend_with_the_probability_to_its_very_ends() -> None:
    p = np.array([0.0, 1e-12, 1e-6, 0.3, 0.5, 1 - 1e-6, 1 - 1e-12, 1.0])
    assert (np.diff(bins_of(p)) > 0).all()
    assert bins_of(p)[0] > 0 and bins_of(p)[-1] < 1 << 32


def test_reliability_bins_have_equal_weight_and_the_sums_of_their_rows() -> None:
    rng = np.random.default_rng(1)
    p = np.sort(rng.beta(1, 9, 5000))
    label, weight = (rng.random(5000) < p).astype(float), rng.choice([1.0, 3.0], 5000)
    histogram = ScoreHistogram()
    histogram.add(np.zeros(5000, dtype=np.uint16), bins_of(p), p, label, weight)
    found = histogram.finish(1).reliability(0)
    assert len(found) == 10
    assert sum(part.rows for part in found) == 5000
    assert sum(part.positives for part in found) == label.sum()
    for part in found:
        assert part.weight == pytest.approx(weight.sum() / 10, rel=0.02)
    first = slice(0, found[0].rows)
    assert found[0].predicted == pytest.approx(np.average(p[first], weights=weight[first]))
    assert found[0].observed == pytest.approx(np.average(label[first], weights=weight[first]))


def test_one_score_is_one_reliability_bin() -> None:
    table = evaluate(log().assign(prediction=0.3), 1, 5)
    (found,) = whole(table).reliability
    assert (found.predicted, found.rows) == (pytest.approx(0.3), 3000)
    assert len(reliability_markdown(table).splitlines()) == 3, "the table holds all rows of the task, no surface"


def test_rows_without_a_value_have_no_value_weighted_metric() -> None:
    rows = log()
    nothing = whole(evaluate(rows.assign(value=None), 1, 5)).estimates
    assert not {"value_ne", "value_calibration"} & nothing.keys()
    rows.loc[rows["surface"] == "feed", "value"] = np.nan
    feed = next(row for row in evaluate(rows, 1, 5) if row.value == "feed")
    assert feed.status == "ok" and feed.estimates["value_ne"].value.reason is Reason.NO_VALUE


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_a_day_of_one_class_is_undefined_in_every_number_that_needs_two(label: float) -> None:
    """B18: counts and reasons, never 0, 0.5 or NaN; the surface with both classes keeps its values."""
    rows = log()
    rows.loc[rows["surface"] == "story", "label"] = label
    rows["prediction_b"] = rows["prediction"]
    for measure in (evaluate, compare):
        feed, story = (row for row in measure(rows, 1, 20) if row.by == "surface")
        assert feed.status == "ok" and all(found.value.defined for found in feed.estimates.values())
        assert story.status == "undefined (one class)" and story.counts.rows > 0 and story.reliability == ()
        json.dumps(to_json([story]), allow_nan=False)
        reasons = {name: str(found.value.reason) for name, found in story.estimates.items() if not found.value.defined}
        expected = {"ne": "one class", "auc": "one class", "value_ne": "one class"}
        expected |= {"gauc": "no group with both classes", "gauc_request": "no group with both classes"}
        expected |= {} if label else {"calibration": "no positives", "value_calibration": "no positives"}
        if measure is evaluate:
            assert reasons == expected
            assert story.estimates["log_loss"].interval is not None
        else:
            assert {"ne_a", "ne_difference", "ne_ratio", "auc_difference", "gauc_difference"} <= reasons.keys()
            assert story.estimates["log_loss_difference"].value.number == 0


def test_a_lone_positive_and_a_lone_user_have_no_interval() -> None:
    rows = log()
    rows["label"] = (np.arange(len(rows)) == 3).astype(float)
    found = whole(evaluate(rows, 1, 100)).estimates
    assert found["ne"].missing is found["auc"].missing is Reason.FEW_RESAMPLES
    assert found["log_loss"].interval is not None
    alone = whole(evaluate(log().assign(user_id=7), 1, 50)).estimates
    assert alone["ne"].missing is Reason.ONE_UNIT and alone["ne"].value.defined


def test_the_interval_of_the_calibration_covers_the_truth_about_as_often_as_it_says() -> None:
    covered = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows = log(n=600).assign(user_id=np.arange(600) // 10, prediction=0.3, weight=1.0)
        rows["label"] = (rng.random(600) < np.clip(0.3 + rng.normal(0, 0.15, 60).repeat(10), 0, 1)).astype(float)
        columns = ["ds", "task", "surface", "user_id", "label", "weight", "prediction"]
        interval = whole(evaluate(rows[columns], 1, 100, seed)).estimates["calibration"].interval
        assert interval is not None
        covered += interval.low <= 1.0 <= interval.high
    assert 0.85 <= covered / 60 <= 1.0


def test_users_as_units_give_wider_intervals_than_rows_when_users_differ() -> None:
    rows = log(n=6000, users=30).assign(prediction=0.3)

    def width(part: pd.DataFrame) -> float:
        interval = whole(evaluate(part, 1, 200)).estimates["calibration"].interval
        assert interval is not None
        return interval.high - interval.low

    nobody = pd.Series([None] * len(rows), dtype="Int64")
    assert width(rows) > 1.3 * width(rows.assign(user_id=nobody).drop(columns="request_id"))


def test_a_comparison_is_zero_with_itself_and_narrower_than_two_intervals() -> None:
    rows = log()
    same = whole(compare(rows.assign(prediction_b=rows["prediction"]), 1, 50)).estimates
    for name, value in (("ne_difference", 0.0), ("auc_difference", 0.0), ("ne_ratio", 1.0)):
        interval = same[name].interval
        assert same[name].value.number == value and interval is not None
        assert (interval.low, interval.high) == (value, value)
    rows["prediction_b"] = np.clip(rows["prediction"] * 1.05, 0, 1)
    pair = whole(compare(rows, 1, 200)).estimates
    alone = whole(evaluate(rows, 1, 200)).estimates["ne"]
    second = whole(evaluate(rows.assign(prediction=rows["prediction_b"]), 1, 200)).estimates["ne"]
    assert pair["ne_a"] == alone and pair["ne_b"] == second
    assert pair["ne_difference"].interval is not None and alone.interval is not None
    assert pair["ne_difference"].value.number == pytest.approx(alone.value.number - second.value.number)  # type: ignore[operator]
    both, one = pair["ne_difference"].interval, alone.interval
    assert both.high - both.low < 0.5 * (one.high - one.low)


def test_a_fault_of_either_side_leaves_the_comparison_undefined() -> None:
    for column in ("prediction", "prediction_b", "weight"):
        rows = log()
        rows.loc[rows.index[4], column] = np.nan
        found = whole(compare(rows, 1, 10))
        assert found.status.startswith("undefined (non-finite")
        assert not any(estimate.value.defined for estimate in found.estimates.values())


def test_units_are_enough_that_users_rarely_share_one() -> None:
    assert len(set(units_of(np.arange(40), 0).tolist())) >= 38 and UNITS < 2**16
