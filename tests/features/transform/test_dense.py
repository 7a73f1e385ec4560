"""Dense transforms are total, keep small rates apart, and are looked up by name."""

import numpy as np
import pytest

from features.transform.dense import TRANSFORMS, dense_inputs, dense_width
from features.transform.schema import Categorical, Dense, FeatureSchema, History, TaskSpec

NASTY = [0.0, -0.0, 1.0, -1.0, 1e38, -1e38, 1e308, -1e308, 1e-320, np.inf, -np.inf, np.nan]


@pytest.fixture
def schema() -> FeatureSchema:
    dense = tuple(Dense(f"{kind}_x", kind) for kind in ("count", "value", "ratio", "age"))
    tables = {"ad": 10}
    return FeatureSchema(
        (Categorical("ad_id", "ad"),), dense, History(), tables, ("feed",), (), (TaskSpec("click", True),)
    )


def test_every_float_becomes_finite(schema: FeatureSchema) -> None:
    columns = {feature.name: np.array(NASTY) for feature in schema.dense}
    out = dense_inputs(schema, columns, len(NASTY))
    assert out.dtype == np.float32
    assert out.shape == (len(NASTY), dense_width(schema))
    assert np.isfinite(out).all()
    assert (np.abs(out) < 50).all()


def test_missing_is_zero_with_an_indicator_and_infinity_is_not_missing(schema: FeatureSchema) -> None:
    values = np.array([np.nan, np.inf, 3.0])
    out = dense_inputs(schema, {"count_x": (values, np.array([False, False, True]))}, 3)
    assert out[:, 0].tolist() == [0.0, pytest.approx(np.log1p(1e12)), 0.0]
    assert out[:, 4].tolist() == [1.0, 0.0, 1.0]
    assert (out[:, 5:] == 1.0).all()  # columns that were not given


def test_known_values() -> None:
    assert TRANSFORMS["count"](np.array([-3.0, 0.0, 9.0])).tolist() == [0.0, 0.0, pytest.approx(np.log(10))]
    assert TRANSFORMS["value"](np.array([-9.0, 9.0])).tolist() == pytest.approx([-np.log(10), np.log(10)])
    assert TRANSFORMS["ratio"](np.array([0.0, 1e-3, 1.0])).tolist() == pytest.approx([-3.0, 0.0, 3.0], abs=1e-3)
    assert TRANSFORMS["age"](np.array([-1.0, 1.0])).tolist() == pytest.approx([0.0, np.log(2)])


def test_small_rates_do_not_vanish() -> None:
    low, high = TRANSFORMS["ratio"](np.array([1e-4, 1e-3]))
    assert high - low > 0.9


def test_transforms_are_monotone() -> None:
    grid = np.concatenate([-np.logspace(14, -9, 200), np.logspace(-9, 14, 200)])
    for name, transform in TRANSFORMS.items():
        assert (np.diff(transform(grid)) >= 0).all(), name


def test_order_of_columns_and_extra_columns_do_not_matter(schema: FeatureSchema) -> None:
    rng = np.random.default_rng(0)
    columns = {feature.name: rng.random(7) for feature in schema.dense}
    shuffled = {"unknown": rng.random(7), **dict(reversed(columns.items()))}
    np.testing.assert_array_equal(dense_inputs(schema, columns, 7), dense_inputs(schema, shuffled, 7))
