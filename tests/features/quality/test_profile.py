"""Profiles are counts: parts add up to the whole, on any engine, and bins need no look at the data."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.quality.monitors import Monitor
from features.quality.profile import MOST_VALUES, Profile, half_octaves, profiles_of, together

MONITOR = Monitor(clock="at", features=("number", "text", "many"), rate=("task", "label"))
DAY = "2024-03-07"


def rows(count: int = 100) -> pa.Table:
    generator = np.random.default_rng(7)
    stamps = [datetime(2024, 3, 7, 12, minute % 60, tzinfo=UTC) for minute in range(count)]
    return pa.table(
        {
            "ds": [DAY] * count,
            "at": pa.array(stamps, pa.timestamp("us", "UTC")),
            "number": pa.array(
                [None if place % 9 == 0 else generator.normal() for place in range(count)], pa.float64()
            ),
            "text": [f"value {place % 3}" for place in range(count)],
            "many": list(range(count)),
            "task": [("click", "buy")[place % 2] for place in range(count)],
            "label": [float(place % 5 == 0) for place in range(count)],
        }
    )


@given(cut=st.integers(0, 100))
def test_parts_add_up_to_the_whole(cut: int) -> None:
    whole = rows()
    parts = [profiles_of(part, "ds", MONITOR).get(DAY, Profile()) for part in (whole[:cut], whole[cut:])]
    assert together(parts) == profiles_of(whole, "ds", MONITOR)[DAY]


def test_what_is_counted() -> None:
    found = profiles_of(rows(), "ds", MONITOR)[DAY]
    assert (found.rows, found.nulls["number"], found.nulls["text"]) == (100, 12, 0)
    assert found.bins["text"] == {"=value 0": 34, "=value 1": 33, "=value 2": 33}
    assert sum(found.bins["number"].values()) == 88
    assert found.rates == {"buy": (10, 50), "click": (10, 50)}
    assert found.first is not None and found.last is not None
    assert found.last - found.first == 59 * 60_000_000
    assert Profile.from_json(found.to_json()) == found


def test_a_feature_of_many_values_is_left_out_also_when_its_parts_have_few() -> None:
    many = rows(100)
    assert profiles_of(many, "ds", MONITOR)[DAY].bins["many"] is None
    halves = [profiles_of(part, "ds", MONITOR)[DAY] for part in (many[: MOST_VALUES - 14], many[MOST_VALUES - 14 :])]
    assert all(half.bins["many"] is not None for half in halves)
    assert together(halves).bins["many"] is None


def test_bins_are_half_octaves_in_the_order_of_the_numbers() -> None:
    numbers = np.array([-1e300, -2.0, -1.0, -5e-324, 0.0, 5e-324, 0.7, 0.71, 1.0, 1.4, 1.42, 2.0, 1e300])
    bins = half_octaves(numbers)
    assert list(bins) == sorted(bins)
    assert bins[6] < bins[7] < bins[8]
    assert bins[8] == bins[9] < bins[10] < bins[11]
    assert bins[4] == 0


@pytest.mark.assets
def test_spark_counts_the_same(spark) -> None:
    from features.quality.profile import profiles_on_spark

    frame = rows().to_pandas().assign(ds=[DAY, "2024-03-08"] * 50)
    in_memory = profiles_of(pa.Table.from_pandas(frame), "ds", MONITOR)
    assert profiles_on_spark(spark.createDataFrame(frame).repartition(3), "ds", MONITOR) == in_memory
