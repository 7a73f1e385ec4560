"""Gradient boosting (LightGBM) on columns of counts: the rival that nets rarely beat on a log of this size.

Trees train on the sampled log without weights, for weighting the kept negatives gives a few rows most of the
gradient; the sampling is undone once, on the odds of the prediction.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit, logit

from benchmarks.rivals import columns
from benchmarks.rivals.dataset import Dataset
from benchmarks.rivals.environment import run_script
from training.metrics import Floats
from training.reader import Rows


@dataclass(frozen=True)
class Boosting:
    """A peer.

    Attributes:
        kind: of its columns, see `columns.SETS`.
        settings: of LightGBM.
        stages: numbers of trees that `staged` looks at; `__call__` takes the last.
    """

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    stages: tuple[int, ...] = (300,)

    def __call__(self, dataset: Dataset, seed: int) -> Floats:
        """Probabilities in the full log of the judged rows."""
        last: Floats = self.staged(dataset, seed)[-1]
        return last

    def staged(self, dataset: Dataset, seed: int) -> Floats:
        """The same after each number of trees: [stages, N]."""
        fit, judged = columns.tables(dataset, self.kind)
        given = run_script(
            "boost.py",
            {
                "fit": fit.values,
                "label": dataset.label(),
                "judged": judged.values,
                "categorical": np.array(fit.categorical),
                "settings": np.array(json.dumps(dict(self.settings))),
                "seed": np.array(seed),
                "stages": np.array(self.stages),
            },
        )
        return full_log(given, dataset.judged)


def full_log(probability: Floats, rows: Rows) -> Floats:
    """From the sampled log to the full one: kept negatives are a share w of all, so odds are multiplied by w.

    Args:
        probability: [..., N] in the sampled log.
        rows: give the keep rate [N].
    """
    keep_rate = rows.columns["keep_rate"].values
    found: Floats = expit(logit(np.clip(probability, 1e-9, 1 - 1e-9)) + np.log(keep_rate))
    return found
