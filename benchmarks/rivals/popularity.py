"""Product popularity as a peer: what is bought often by everyone, whoever asks."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.rivals.dataset import Dataset
from training.baselines import Popularity
from training.metrics import Floats
from training.reader import Rows


@dataclass(frozen=True)
class Popular:
    """A peer.

    Attributes:
        weeks: newest fitted weeks that it counts; None for all.
    """

    weeks: int | None = None

    def __call__(self, dataset: Dataset, seed: int) -> Floats:
        """Probabilities in the full log of the judged rows; the seed changes nothing."""
        rows = dataset.fit
        if self.weeks is not None:
            rows = rows.take(np.flatnonzero(rows.day > rows.day.max() - 7 * self.weeks))
        assert rows.labels is not None
        pairs = _pairs(rows).assign(label=rows.labels.label[:, 0], weight=rows.labels.weight[:, 0])
        judged = _pairs(dataset.judged)
        return Popularity.fit(pairs).predict(judged["ad_id"], judged["surface"])


def _pairs(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame({name: rows.columns[name].values for name in ("ad_id", "surface")})
