"""Bags: the same rows as by plain loops, never empty."""

import numpy as np
import pytest

from features.transform.bags import bags_of
from features.transform.columns import Column, as_column, of_lists
from features.transform.hashing import rows_of, string_id, table_salt


def row(item: int) -> int:
    return int(rows_of(np.array([item]), np.array([False]), 50, table_salt("tag"))[0])


@pytest.mark.parametrize("seed", range(5))
def test_bags_are_those_of_plain_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lists = [
        None
        if rng.random() < 0.2
        else [None if rng.random() < 0.2 else int(item) for item in rng.integers(-9, 9, size)]
        for size in rng.integers(0, 5, 30)
    ]
    rows, lengths = bags_of(of_lists(lists, np.int64), "tag", 50)
    bags = [[row(item) for item in items or [] if item is not None] or [0] for items in lists]
    assert rows.tolist() == [item for bag in bags for item in bag]
    assert lengths.tolist() == [len(bag) for bag in bags]


def test_text_is_hashed_as_the_ingest_hashes_it() -> None:
    """Case B16: "0005" is a text of its own and no integer, here as in a single-valued feature."""
    column = as_column(np.array([["5", "0005"], ["0005", None]], dtype=object))
    rows, lengths = bags_of(column, "tag", 50)
    assert rows.tolist() == [row(string_id("5")), row(string_id("0005")), row(string_id("0005"))]
    assert lengths.tolist() == [2, 1]


def test_a_single_value_is_a_bag_of_one() -> None:
    rows, lengths = bags_of(Column(np.array([4, 0]), np.array([False, True])), "tag", 50)
    assert (rows.tolist(), lengths.tolist()) == ([row(4), 0], [1, 1])
    assert [len(part) for part in bags_of(of_lists([], np.int64), "tag", 50)] == [0, 0]
