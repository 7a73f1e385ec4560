"""The first scores that impressions got: made before training on any of their labels, they stay what was served."""

from dataclasses import dataclass, field

import numpy as np

from training.areas import Floats
from training.reader import Rows

Key = tuple[int, int]
"""An impression: the ordinal of its day and its id."""


@dataclass
class FirstScores:
    """Scores by impression, one a task and NaN where there is none.

    Attributes:
        held: float [T] each.
    """

    held: dict[Key, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many impressions have scores."""
        return len(self.held)

    def add(self, rows: Rows, scores: np.ndarray) -> None:
        """Keep scores [N, T] of rows [N]; what an impression has got already stays."""
        for key, values in zip(keys_of(rows), scores, strict=True):
            self.held.setdefault(key, values)

    def of(self, rows: Rows, tasks: int) -> Floats:
        """First scores of rows, float64 [N, T]; NaN where there is none."""
        nothing = np.full(tasks, np.nan)
        found = [self.held.get(key, nothing) for key in keys_of(rows)]
        return np.array(found, dtype=np.float64).reshape(len(rows), tasks)


def keys_of(rows: Rows) -> list[Key]:
    """Of each row, in order."""
    return list(zip(rows.day.tolist(), rows.impression_id.tolist(), strict=True))
