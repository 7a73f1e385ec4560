"""GEM and its siblings as peers: a recipe, trained by the product's own steps, frozen, then scored once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.rivals.dataset import Dataset
from training.metrics import Floats


@dataclass(frozen=True)
class Gem:
    """A peer.

    Attributes:
        recipe: its name.
        overrides: changed values of it.
    """

    recipe: str
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, dataset: Dataset, seed: int) -> Floats:
        """Probabilities in the full log of the judged rows."""
        import torch

        from benchmarks.rivals.environment import threads
        from training.compute import Compute, deterministic
        from training.loop import build, score, train_on
        from training.recipes import recipe
        from training.walk import start_biases

        torch.set_num_threads(threads())
        with deterministic():
            trainee = build(dataset.files.schema, recipe(self.recipe, self.overrides), seed, Compute.alone())
            reader, rates = dataset.reader_of(seed), dict[str, float]()
            rows_of = dataset.training_days(seed)
            for day in dataset.days:
                rows = rows_of(day)
                rates |= start_biases(trainee, rows, rates)
                trainee.weigh(rates)
                for _ in train_on(trainee, reader, rows, day):
                    pass
            found = score(trainee, reader, dataset.judged)[:, 0]
        return found.astype(np.float64)
