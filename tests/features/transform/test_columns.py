"""Columns with nulls: every accepted form gives exact values and the right mask."""

import numpy as np
import pytest

from features.transform.columns import Column, as_column, column_of, joined, of_lists

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


def test_lists_are_filled_up_with_missing_places() -> None:
    column = of_lists([[BIG, None], None, [], [1, 2, 3]], np.int64)
    assert column.values.shape == (4, 3) and column.values[0, 0] == BIG
    assert (~column.missing).tolist() == [[True, False, False], [False] * 3, [False] * 3, [True] * 3]
    assert of_lists([None, None], np.int64).values.shape == (2, 0)
    assert of_lists([], np.float32).values.shape == (0, 0)
    texts = as_column(np.array([["a", None], [None, None]], dtype=object))
    assert texts.missing.tolist() == [[False, True], [True, True]]


@pytest.mark.parametrize("widths", [(3, 1), (1, 3), (0, 2), (0, 0)])
def test_joined_lists_are_as_wide_as_the_widest(widths: tuple[int, int]) -> None:
    lists = [[[*range(width)], None] for width in widths]
    column = joined([of_lists(part, np.int64) for part in lists])
    whole = of_lists([items for part in lists for items in part], np.int64)
    assert np.array_equal(column.missing, whole.missing)
    assert column.values[~column.missing].tolist() == whole.values[~whole.missing].tolist()


def test_a_day_without_the_column_joins_lists() -> None:
    nothing = Column(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool))
    assert joined([nothing, of_lists([[1, 2]], np.int64)]).values.tolist() == [[1, 2]]
    assert joined([nothing, nothing]).values.shape == (0,)
