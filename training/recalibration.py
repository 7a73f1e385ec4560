"""Probabilities calibrated by what became due before: lines over raw logits, moved on by each walked day's labels.

Each pair's raw logit is kept from when it was first scored until its label is due; then it joins the sums that the
lines are fitted to (`training.logit_sums`). A day is therefore scored by lines that know only of labels due before it,
and they are fitted on predictions that were made before training on the pair. Logits that wait and sums are part of
the checkpoint, so a chain of one-day walks fits what one long walk does.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
import torch
from torch import Tensor

from features.transform.schema import FeatureSchema
from models.funnel import NONE, parents
from models.recalibration import Lines
from training import checkpoint
from training.areas import Integers
from training.first_scores import FirstScores, keys_of
from training.logit_sums import LogitSums
from training.plan import ModelRef
from training.reader import Reader, Rows
from training.walk import CANDIDATE, Trainee

PREFIX = "recalibration."
"""Of the tensors' names."""
HORIZON = 60
"""Days after which nobody waits for a label any more; longer than any sensible attribution window with its lag."""


@dataclass
class Recalibrator:
    """Of one model, the candidate or its control.

    Attributes:
        schema: names surfaces and tasks.
        told: lines in force, as a manifest says them.
        sums: of pairs that became due.
        waiting: raw logits of pairs that may still become due.
    """

    schema: FeatureSchema
    told: Mapping[str, Any]
    sums: LogitSums
    waiting: FirstScores = field(default_factory=FirstScores)

    @classmethod
    def of(cls, schema: FeatureSchema, told: Mapping[str, Any] | None = None) -> "Recalibrator":
        """With lines from a manifest, or none yet."""
        sums = LogitSums.empty(schema)
        return cls(schema, told or sums.told(), sums)

    def probabilities(self, raw: np.ndarray, rows: Rows) -> np.ndarray:
        """Calibrated ones, float64 [N, T], from raw logits of rows; on surfaces that are new what is pooled."""
        lines = Lines.of(self.told, self.schema.surfaces, self.schema.task_names)
        found = lines.of_logits(torch.from_numpy(raw), torch.from_numpy(self._surface(rows)))
        result: np.ndarray = found.sigmoid().numpy()
        return result

    def wait(self, raw: np.ndarray, rows: Rows, started: Collection[str]) -> None:
        """Keep raw logits [N, T] of tasks that have met a label, where they exist, until their own are due."""
        exists = np.array(
            [
                [task.name in started and name in (task.surfaces or self.schema.surfaces) for task in self.schema.tasks]
                for name in self.schema.surfaces
            ]
        )
        self.waiting.add(rows, np.where(exists[self._surface(rows)], raw, np.nan))

    def learn(self, due: Rows, day: str) -> None:
        """Fit the lines anew with the pairs that became due on a day, and wait for them no more."""
        assert due.labels is not None
        surface = self._surface(due)
        raw = self.waiting.of(due, len(self.schema.tasks))
        self.sums.add_day(surface, raw, due.labels)
        for key, logits in zip(keys_of(due), np.where(self._over(due, surface), np.nan, raw), strict=True):
            self.waiting.held[key] = logits
        first = date.fromisoformat(day).toordinal() - HORIZON
        self.waiting = FirstScores(
            {key: logits for key, logits in self.waiting.held.items() if key[0] > first and np.isfinite(logits).any()}
        )
        self.told = self.sums.told()

    def _over(self, due: Rows, surface: Integers) -> np.ndarray:
        """Pairs of which no label will come any more, bool [N, T]: they are due, or below one that is not positive."""
        assert due.labels is not None
        known = due.labels.mask > 0
        above = parents(self.schema).numpy()[surface]
        without = known & (due.labels.label == 0)
        for _ in self.schema.tasks:
            without |= np.take_along_axis(without, above.clip(min=0), axis=1) & (above != NONE)
        over: np.ndarray = known | without
        return over

    def _surface(self, rows: Rows) -> Integers:
        """Index of each row's surface, [N]; their number where the schema does not have it."""
        places = {name: index for index, name in enumerate(self.schema.surfaces)}
        found = [places.get(name, len(places)) for name in rows.columns["surface"].values]
        return np.array(found, dtype=np.int64)

    def tensors(self) -> dict[str, Tensor]:
        """All that the lines will be fitted to, by name; `restore` reads it back."""
        keys = sorted(self.waiting.held)
        raw = np.array([self.waiting.held[key] for key in keys], dtype=np.float32).reshape(-1, len(self.schema.tasks))
        known = np.isfinite(raw)
        return {
            "sums": torch.from_numpy(self.sums.sums.copy()),
            "waiting.impression": torch.tensor(keys, dtype=torch.int64).reshape(-1, 2),
            "waiting.known": torch.from_numpy(known),
            # a checkpoint holds only what is finite
            "waiting.logit": torch.from_numpy(np.where(known, raw, np.float32(0))),
        }

    def restore(self, held: Mapping[str, Tensor], surfaces: Collection[str]) -> None:
        """Go on from the tensors of a checkpoint with these surfaces."""
        self.sums.placed(held["sums"].numpy(), list(surfaces))
        raw = np.where(held["waiting.known"].numpy(), held["waiting.logit"].numpy(), np.nan)
        keys = map(tuple, held["waiting.impression"].tolist())
        self.waiting = FirstScores(dict(zip(keys, raw, strict=True)))


class Recalibration:
    """Of all models of a trainee, by role; where it is off it leaves everything as it is."""

    def __init__(self, schema: FeatureSchema, on: bool) -> None:
        """Without a label."""
        self.schema, self.on = schema, on
        self.roles: dict[str, Recalibrator] = {}

    @classmethod
    def in_force(cls, schema: FeatureSchema, manifest: Mapping[str, Any]) -> "Recalibration":
        """That of a trained model, to score with; its schema may have more surfaces now."""
        told = manifest.get("recalibration", {})
        found = cls(schema, bool(told))
        found.roles = {role: Recalibrator.of(schema, own) for role, own in told.items()}
        return found

    def load(self, ref: ModelRef, manifest: Mapping[str, Any]) -> None:
        """Go on where the parent stopped; from nothing when it was not recalibrated."""
        if not self.on:
            return
        self.roles = self.in_force(self.schema, manifest).roles
        held = checkpoint.full_tensors(ref, PREFIX)
        for role, own in self.roles.items():
            start = f"{PREFIX}{role}."
            tensors = {name.removeprefix(start): tensor for name, tensor in held.items() if name.startswith(start)}
            own.restore(tensors, manifest["schema"]["surfaces"])

    def scores(
        self, trainee: Trainee, reader: Reader, rows: Rows, waiting: Collection[str] = ()
    ) -> Mapping[str, np.ndarray]:
        """Probabilities by role, see `training.walk.Trainee`.

        Args:
            trainee: scores.
            reader: gives batches.
            rows: are scored.
            waiting: tasks whose raw logits are kept until their labels are due.
        """
        if not self.on:
            return trainee.scores(reader, rows)
        found = {}
        for role, raw in trainee.scores(reader, rows, link=lambda logits: logits).items():
            if role not in self.roles:
                self.roles[role] = Recalibrator.of(self.schema)
            own = self.roles[role]
            found[role] = own.probabilities(raw, rows)
            if waiting:
                own.wait(raw, rows, waiting)
        return found

    def learn(self, due: Rows, day: str) -> None:
        """Move the lines on by the pairs that became due on a day."""
        for own in self.roles.values():
            own.learn(due, day)

    def tensors(self) -> dict[str, Tensor]:
        """By canonical name; the same on every process."""
        return {
            f"{PREFIX}{role}.{name}": tensor
            for role, own in self.roles.items()
            for name, tensor in own.tensors().items()
        }

    def told(self) -> dict[str, Any]:
        """What a manifest has beside the weights: nothing where it is off, else `recalibration`, the lines by role."""
        return {"recalibration": {role: dict(own.told) for role, own in self.roles.items()}} if self.on else {}


def packaged(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What a package's manifest takes from its model's: `recalibration`, the candidate's lines, where there are any."""
    told = manifest.get("recalibration")
    return {"recalibration": told[CANDIDATE]} if told else {}
