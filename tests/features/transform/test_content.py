"""Content embeddings: exact where they are whole, zeros and a mark everywhere else, finite always."""

import numpy as np
import pytest

from features.transform.columns import Column, of_lists
from features.transform.content import LIMIT, content_inputs
from features.transform.schema import Content, SchemaError

LOOK = Content("look", 3)


def test_a_vector_is_itself_and_a_missing_one_a_mark() -> None:
    found = content_inputs(LOOK, of_lists([[0.5, -1.0, 2.0], None, [0.0, 0.0, 0.0]], np.float32))
    assert found.dtype == np.float32
    assert found.tolist() == [[0.5, -1.0, 2.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]]


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, None])
def test_a_vector_that_is_not_whole_is_missing(odd: float | None) -> None:
    """Case B15: no number reaches a model that is none."""
    found = content_inputs(LOOK, of_lists([[1.0, odd, 1.0], [1.0, 1.0, 1.0]], np.float64))
    assert found.tolist() == [[0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0]]


def test_stray_sizes_are_clipped() -> None:
    found = content_inputs(LOOK, of_lists([[1e38, -1e300, 1.0]], np.float64))
    assert found.tolist() == [[LIMIT, -LIMIT, 1.0, 0.0]]


def test_nothing_known_is_missing_whatever_the_width() -> None:
    for column in (of_lists([None, []], np.float32), Column(np.zeros(2), np.ones(2, dtype=bool))):
        assert content_inputs(LOOK, column).tolist() == [[0.0, 0.0, 0.0, 1.0]] * 2
    assert content_inputs(LOOK, of_lists([], np.float32)).shape == (0, 4)


def test_another_width_is_an_error_that_names_the_embedding() -> None:
    with pytest.raises(SchemaError, match="embedding look: vectors of 2 numbers, the schema says 3"):
        content_inputs(LOOK, of_lists([[1.0, 2.0], None], np.float32))
