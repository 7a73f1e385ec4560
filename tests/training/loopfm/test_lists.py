"""List columns: there and back, also of parts of a table, and no list of another length passes."""

import numpy as np
import pyarrow as pa
import pytest

from features.errors import GemlineError
from training.loopfm.lists import lists, matrix


def test_there_and_back() -> None:
    values = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    column = pa.chunked_array([lists(values[:2]), lists(values[2:2]), lists(values[2:])])
    np.testing.assert_array_equal(matrix(column, "t"), values)
    np.testing.assert_array_equal(matrix(column.slice(1, 4), "t", 3), values[1:5])
    np.testing.assert_array_equal(matrix(column.filter(pa.array([True, False] * 3 + [True])), "t"), values[::2])


def test_no_row_is_no_width_or_the_one_asked_for() -> None:
    nothing = pa.chunked_array([], pa.list_(pa.float32()))
    assert matrix(nothing, "t").shape == (0, 0)
    assert matrix(nothing, "t", 4).shape == (0, 4)


@pytest.mark.parametrize("rows", [[[1.0, 2.0], [1.0]], [[1.0, 2.0], None], [[1.0], [1.0, 2.0, 3.0]]])
def test_another_length_is_refused(rows: list[list[float] | None]) -> None:
    """Also where the total would do."""
    with pytest.raises(GemlineError, match=r"t: a row has . numbers; each must have 2"):
        matrix(pa.chunked_array([pa.array(rows, pa.list_(pa.float32()))]), "t", 2)
