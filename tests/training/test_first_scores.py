"""The first scores stay: of an impression, which is a day and an id."""

import numpy as np

from features.transform.columns import Column
from training.first_scores import FirstScores
from training.reader import Rows


def rows(*keys: tuple[int, int]) -> Rows:
    day, impression = np.array(keys, dtype=np.int64).reshape(-1, 2).T
    return Rows({"impression_id": Column(impression, np.zeros(len(day), dtype=bool))}, day)


def test_a_second_score_does_not_replace_the_first() -> None:
    scores = FirstScores()
    scores.add(rows((1, 7), (2, 7)), np.array([[0.1, np.nan], [0.2, 0.3]], dtype=np.float32))
    scores.add(rows((2, 7), (2, 8)), np.array([[0.9, 0.9], [0.4, 0.5]], dtype=np.float32))
    found = scores.of(rows((2, 8), (1, 7), (2, 7), (3, 7)), 2)
    nan = np.nan
    np.testing.assert_array_equal(found, np.float32([[0.4, 0.5], [0.1, nan], [0.2, 0.3], [nan, nan]]))
    assert len(scores) == 3 and scores.of(rows(), 2).shape == (0, 2)
