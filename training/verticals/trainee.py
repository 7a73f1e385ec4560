"""A vertical in training, and beside it the same model without GEM: its control on the same rows and steps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from features.transform.batch import Batch
from features.transform.schema import FeatureSchema
from features.transform.transfer import SOURCES, Transfer
from models.gem.loss import gem_loss
from models.layers.tables import TABLES_PREFIX
from models.layers.touches import TouchCounters
from models.vertical.config import VerticalConfig
from models.vertical.model import VerticalModel
from training import checkpoint
from training.distill import distillation_loss
from training.finite import NonFinite, mend
from training.optim import DenseOptimizer
from training.plan import ModelRef
from training.reader import Reader, Rows
from training.recipes import Recipe
from training.shares import HeadInput, TaskShares
from training.verticals.reader import VerticalReader
from training.walk import CANDIDATE, Link
from training.weights import task_factors

ALONE = "alone"
"""Role of the control: no memory, no precomputed vector, no teacher."""


def vertical_model(schema: FeatureSchema, config: VerticalConfig, width: int) -> VerticalModel:
    """The model of a schema; width 0 builds it alone."""
    return VerticalModel(schema, config, width, len(SOURCES))


class Arm:
    """One model with its optimizers."""

    def __init__(self, schema: FeatureSchema, recipe: Recipe, width: int, seed: int) -> None:
        """A cold model; the same weights for the same seed."""
        assert isinstance(recipe.model, VerticalConfig)
        torch.manual_seed(seed)
        self.schema, self.recipe = schema, recipe
        self.shares = TaskShares(schema.task_names)
        self.weigh({})
        self.model = vertical_model(schema, recipe.model, width)
        named = dict(self.model.named_parameters())
        self.tables = {name: tensor for name, tensor in named.items() if name.startswith(TABLES_PREFIX)}
        dense = {name: tensor for name, tensor in named.items() if name not in self.tables and tensor.requires_grad}
        self.dense = DenseOptimizer(dense, recipe)
        self.adagrad = torch.optim.Adagrad(self.tables.values(), lr=recipe.table_lr, eps=recipe.adagrad_eps)

    def weigh(self, rates: Mapping[str, float]) -> None:
        """Weigh tasks by the base rates that they started at."""
        self.factors = task_factors(self.recipe.task_weights, rates, self.schema.task_names)

    def step(self, batch: Batch, transfer: Transfer, where: str) -> float:
        """One step; returns the labels' loss before it: the weighted sum over tasks of mean log-losses.

        Raises:
            NonFinite: loss or gradient is not finite.
        """
        self.model.train()
        with self.dense.training():
            return self._step(batch, transfer, where)

    def _step(self, batch: Batch, transfer: Transfer, where: str) -> float:
        with HeadInput(self.model.heads) as trunk:
            logits = self.model(batch, transfer)
        losses = gem_loss(logits.served, batch, self.schema, self.factors)
        labels = total = losses.total()
        if self.model.width:
            lesson = distillation_loss(logits.taught, transfer.teacher, transfer.taught, batch.keep_rate)
            total = labels + self.recipe.distill_weight * lesson
        if not torch.isfinite(total):
            raise NonFinite(f"{where}: the loss is {float(total.detach())}; {mend()}")
        self.shares.add(losses.means().tolist())
        if self.shares.gradient is None:
            self.shares.gradient = trunk.gradient_norms(losses.means())
        self.adagrad.zero_grad(set_to_none=True)
        # without a label and a lesson nothing depends on the weights
        if total.requires_grad:
            total.backward()
        for parameter in self.dense.parameters.values():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        if not np.isfinite(norm := self.dense.step()):
            raise NonFinite(f"{where}: the norm of the dense gradient is {norm}; {mend()}")
        self.adagrad.step()
        return float(labels.detach())

    def tensors(self) -> dict[str, Tensor]:
        """Weights and optimizer state by canonical name; loading into them restores."""
        found = dict(self.model.state_dict()) | self.dense.state()
        for name, parameter in self.tables.items():
            found[f"table_optim.{name}"] = self.adagrad.state[parameter]["sum"]
        return found


@dataclass
class VerticalTrainee:
    """A vertical and its control.

    Attributes:
        schema: inputs and outputs.
        recipe: sizes and settings.
        generation: whose memories, vectors and teaching it reads.
        arms: by role, `CANDIDATE` and `ALONE`.
        counters: how often training touched each table row; the same for both arms.
    """

    schema: FeatureSchema
    recipe: Recipe
    generation: str
    arms: dict[str, Arm]
    counters: TouchCounters

    @classmethod
    def cold(cls, schema: FeatureSchema, recipe: Recipe, generation: str, width: int, seed: int) -> "VerticalTrainee":
        """Both arms untrained."""
        arms = {CANDIDATE: Arm(schema, recipe, width, seed), ALONE: Arm(schema, recipe, 0, seed)}
        return cls(schema, recipe, generation, arms, TouchCounters(dict(schema.tables)))

    def tensors(self) -> dict[str, Any]:
        """`model.*` of the candidate, `alone.*` of the control."""
        found = {f"model.{name}": tensor for name, tensor in self.arms[CANDIDATE].tensors().items()}
        return found | {f"{ALONE}.{name}": tensor for name, tensor in self.arms[ALONE].tensors().items()}

    def touches(self) -> dict[str, Tensor]:
        """Touch counters by canonical name."""
        return {f"touches.{table}": count for table, count in self.counters.counts().items()}

    def load(self, ref: ModelRef, surfaces: Sequence[str] = ()) -> None:
        """Become the model of a checkpoint that has been verified; its surfaces are the vertical's own."""
        checkpoint.load(self.tensors() | self.touches(), Path(ref.path))

    def start_at(self, rates: Mapping[str, float]) -> None:
        """Start both arms' biases at base rates."""
        for arm in self.arms.values():
            arm.dense.change(partial(arm.model.start_at, rates))

    def weigh(self, rates: Mapping[str, float]) -> None:
        """Weigh both arms' tasks by the base rates that they started at."""
        for arm in self.arms.values():
            arm.weigh(rates)

    @property
    def shares(self) -> TaskShares:
        """The candidate's, of the last call of `train_on`."""
        return self.arms[CANDIDATE].shares

    def train_on(self, reader: Reader, rows: Rows, where: str) -> Iterator[float]:
        """Train both arms on each row once; yields the candidate's loss of every batch."""
        for arm in self.arms.values():
            arm.shares.begin()
        for step, (_, batch, transfer) in enumerate(self._lessons(reader, rows, self.recipe.batch_size)):
            self.counters.update(self.arms[CANDIDATE].model.embeddings, batch)
            losses = {role: arm.step(batch, transfer, f"{where}, step {step}") for role, arm in self.arms.items()}
            yield losses[CANDIDATE]

    def gates(self) -> dict[str, dict[str, Any]]:
        """None: a vertical has no domain experts."""
        return {}

    @torch.no_grad()
    def scores(self, reader: Reader, rows: Rows, link: Link = torch.sigmoid) -> dict[str, np.ndarray]:
        """Probabilities in the full log by role, float32 [N, T] each; see `training.walk.Trainee`."""
        found = {role: np.zeros((len(rows), len(self.schema.tasks)), dtype=np.float32) for role in self.arms}
        for positions, batch, transfer in self._lessons(reader, rows, self.recipe.score_batch_size):
            for role, arm in self.arms.items():
                arm.model.eval()
                found[role][positions] = link(arm.model(batch, transfer).served).numpy()
        return found

    def _lessons(self, reader: Reader, rows: Rows, batch_size: int) -> Iterator[tuple[np.ndarray, Batch, Transfer]]:
        assert isinstance(reader, VerticalReader)
        return reader.lessons(rows, self.schema, self.generation, batch_size, self.recipe.cut)
