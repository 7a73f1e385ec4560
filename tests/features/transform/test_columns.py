"""Columns with nulls: every accepted form gives exact values and the right mask."""

import numpy as np

from features.transform.columns import as_column, column_of

BIG = 2**62 + 1


def test_large_ids_stay_exact_beside_nulls() -> None:
    for data in (
        (np.array([BIG, 0]), np.array([False, True])),
        np.ma.MaskedArray(np.array([BIG, 0]), [False, True]),
        np.array([BIG, None], dtype=object),
    ):
        column = as_column(data)
        assert int(column.values[0]) == BIG
        assert column.missing.tolist() == [False, True]


def test_nan_is_missing_also_where_a_mask_is_given() -> None:
    assert as_column(np.array([1.0, np.nan])).missing.tolist() == [False, True]
    assert as_column((np.array([np.nan, 1.0]), np.array([False, True]))).missing.tolist() == [True, True]


def test_an_absent_key_is_missing_throughout() -> None:
    assert column_of({}, "x", 3).missing.all()
    assert not column_of({"x": np.arange(3)}, "x", 3).missing.any()
