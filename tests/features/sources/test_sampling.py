"""The keep decision: one hash, the same in Spark and numpy, blind to labels."""

from typing import TYPE_CHECKING

import numpy as np
import pytest
from pyspark.sql import functions as F

from features.sources.sampling import kept, sample, uniform
from features.transform import sampling
from features.worlds import load_world

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RATES = {"feed": 0.5, "story": 1.0}


@pytest.fixture(scope="module")
def ids() -> np.ndarray:
    drawn = np.random.default_rng(3).integers(-(2**63), 2**63 - 1, 4000)
    return np.concatenate([drawn, [0, -1, 2**63 - 1, -(2**63), 2**62 + 1, 2**62 + 2]])


@pytest.fixture(scope="module")
def rows(spark: "SparkSession", ids: np.ndarray) -> "DataFrame":
    surfaces = ["feed" if place % 2 else "story" for place in range(len(ids))]
    pairs = zip([int(value) for value in ids], surfaces, strict=True)
    return spark.createDataFrame(list(pairs), "impression_id bigint, surface string")


def test_numbers_are_spread_evenly(ids: np.ndarray) -> None:
    drawn = sampling.uniform(ids)
    assert drawn.min() >= 0 and drawn.max() < 1
    counts = np.histogram(drawn, 10, (0, 1))[0]
    assert np.all(np.abs(counts - len(ids) / 10) < 5 * np.sqrt(len(ids) / 10))


def test_the_share_kept_is_the_rate() -> None:
    ids = np.arange(200_000)
    for rate in (0.005, 0.5, 1.0):
        share = sampling.kept(ids, np.full(len(ids), rate)).mean()
        assert abs(share - rate) <= 5 * np.sqrt(rate * (1 - rate) / len(ids))


@pytest.mark.assets
def test_spark_and_numpy_decide_alike(rows: "DataFrame") -> None:
    frame = rows.select("impression_id", uniform(F.col("impression_id")).alias("u"))
    found = frame.withColumn("kept", kept(F.col("impression_id"), F.lit(0.3))).collect()
    numbers = np.array([row["impression_id"] for row in found], dtype=np.int64)
    assert np.array_equal(sampling.uniform(numbers), np.array([row["u"] for row in found]))
    assert np.array_equal(sampling.kept(numbers, np.full(len(numbers), 0.3)), np.array([row["kept"] for row in found]))


def _kept_rows(rows: "DataFrame", positive: set[int]) -> dict[int, float]:
    flagged = sample(rows, load_world("tiny"), F.col("impression_id").isin(sorted(positive)))
    return {row["impression_id"]: row["keep_rate"] for row in flagged.collect()}


@pytest.mark.assets
def test_permuted_labels_move_no_negative_and_no_rate(rows: "DataFrame", ids: np.ndarray) -> None:
    rng = np.random.default_rng(5)
    first, second = ({int(value) for value in rng.choice(ids, 200, replace=False)} for _ in range(2))
    one, other = _kept_rows(rows, first), _kept_rows(rows, second)
    either = first | second
    assert {key: rate for key, rate in one.items() if key not in either} == {
        key: rate for key, rate in other.items() if key not in either
    }
    assert all(one[key] == other[key] for key in one.keys() & other.keys())


@pytest.mark.assets
def test_positives_are_kept_and_carry_their_surface_rate(rows: "DataFrame", ids: np.ndarray) -> None:
    dropped = [int(value) for value in ids[~sampling.kept(ids, np.full(len(ids), 0.5))]]
    positive = {value for place, value in enumerate(int(value) for value in ids) if place % 2} & set(dropped)
    without, found = _kept_rows(rows, set()), _kept_rows(rows, positive)
    assert not positive & without.keys()
    assert {found[value] for value in positive} == {RATES["feed"]}


@pytest.mark.assets
def test_a_surface_without_a_rate_is_not_sampled_by_accident(spark: "SparkSession") -> None:
    rows = spark.createDataFrame([(1, "elsewhere")], "impression_id bigint, surface string")
    assert sample(rows, load_world("tiny"), F.lit(True)).count() == 0
