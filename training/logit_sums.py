"""What matured labels say about raw logits, in memory that does not grow: sums by surface, task and bin of logit.

A walked day's sums count `DECAY` of the next day's, so the newest twenty days weigh about as much as all before. A bin
keeps the mean of its logits, so its width costs a fit only the second order of 1/16.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from features.transform.batch import Labels
from features.transform.schema import FeatureSchema
from training.areas import Floats, Integers
from training.platt import platt

DECAY = 0.95
MIN_ROWS = 100
"""Rows of each class, older ones decayed, that a fit needs."""
LIMIT, BINS = 16.0, 512
"""Logits beyond the limit count as it does: there is no telling them apart in probabilities of float32."""
_POSITIVE, _NEGATIVE, _LOGIT, _POSITIVES, _NEGATIVES = range(5)
"""Sums of a bin: weight of each class, weight times logit, rows of each class."""

OWN, POOLED, IDENTITY = "own", "pooled", "identity"
"""Where a line comes from: fitted on the surface's rows, on those of all surfaces, or not at all."""


@dataclass
class LogitSums:
    """Decayed sums of one model's pairs.

    Attributes:
        schema: names surfaces and tasks.
        sums: float64 [S, T, 5, `BINS`].
    """

    schema: FeatureSchema
    sums: Floats

    @classmethod
    def empty(cls, schema: FeatureSchema) -> "LogitSums":
        """Without rows."""
        return cls(schema, np.zeros((len(schema.surfaces), len(schema.tasks), 5, BINS)))

    def add_day(self, surface: Integers, logits: Floats, labels: Labels) -> None:
        """Let a day pass, then add the pairs that became due on it.

        Args:
            surface: index in the schema's, [N].
            logits: raw ones that were given before training on the pair, [N, T]; NaN where there is none.
            labels: only pairs that are due, by the mask, count.
        """
        self.sums *= DECAY
        row, task = np.nonzero((labels.mask > 0) & np.isfinite(logits))
        logit = np.clip(logits[row, task], -LIMIT, LIMIT)
        label, weight = (part[row, task].astype(np.float64) for part in (labels.label, labels.weight))
        place = np.minimum(((logit + LIMIT) * (BINS / (2 * LIMIT))).astype(np.int64), BINS - 1)
        parts = {
            _POSITIVE: weight * label,
            _NEGATIVE: weight * (1 - label),
            _LOGIT: weight * logit,
            _POSITIVES: label,
            _NEGATIVES: 1 - label,
        }
        cell = (surface[row] * len(self.schema.tasks) + task) * BINS + place
        surfaces, tasks = self.sums.shape[:2]
        for part, values in parts.items():
            found = np.bincount(cell, values, surfaces * tasks * BINS)
            self.sums[:, :, part] += found.reshape(surfaces, tasks, BINS)

    def told(self) -> dict[str, Any]:
        """By task the line `pooled` and, where the task exists, those of `surfaces`, as a manifest says it.

        A line has slope, offset, level, and how many positives (older ones decayed) it was fitted on, or could not be.
        """
        places, found = {name: index for index, name in enumerate(self.schema.surfaces)}, {}
        for index, task in enumerate(self.schema.tasks):
            all_surfaces = self.sums[:, index].sum(axis=0)
            identity = {"slope": 1.0, "offset": 0.0, "positives": _positives(all_surfaces), "level": IDENTITY}
            pooled = _line(all_surfaces, POOLED, identity)
            own = {
                name: _line(self.sums[places[name], index], OWN, pooled)
                for name in task.surfaces or self.schema.surfaces
            }
            found[task.name] = {"pooled": pooled, "surfaces": own}
        return found

    def placed(self, held: Floats, surfaces: Sequence[str]) -> None:
        """Take the sums of a checkpoint whose surfaces were these, by name; new surfaces start without rows."""
        for name in set(surfaces) & set(self.schema.surfaces):
            self.sums[self.schema.surfaces.index(name)] = held[surfaces.index(name)]


def _positives(sums: Floats) -> float:
    return round(float(sums[_POSITIVES].sum()), 1)


def _line(sums: Floats, level: str, otherwise: dict[str, Any]) -> dict[str, Any]:
    """The fit of sums [5, `BINS`]; another line where a class has too few rows."""
    if min(sums[_POSITIVES].sum(), sums[_NEGATIVES].sum()) < MIN_ROWS:
        return otherwise
    weight = sums[_POSITIVE] + sums[_NEGATIVE]
    held = weight > 0
    logit = sums[_LOGIT, held] / weight[held]
    label = np.repeat([1.0, 0.0], len(logit))
    slope, offset = platt(np.tile(logit, 2), label, np.concatenate([sums[_POSITIVE, held], sums[_NEGATIVE, held]]))
    return {"slope": slope, "offset": offset, "positives": _positives(sums), "level": level}
