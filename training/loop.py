"""GEM in training: what holds its weights and optimizers, one training step, and scoring.

A step stops the run at the first loss or gradient that is not finite. Nothing is skipped: a skipped batch
would be data that no count shows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from features.transform.batch import Batch
from features.transform.schema import FeatureSchema
from models.gem.config import GemConfig
from models.gem.embeddings import Embeddings
from models.gem.loss import gem_loss
from models.gem.model import Gem
from models.layers.tables import TABLES_PREFIX
from training import checkpoint
from training.compute import Compute, summed
from training.continuing import by_surface, place, room_for
from training.finite import NonFinite, mend
from training.fused import fuse_tables, table_state
from training.gates import GateMonitor
from training.optim import DenseOptimizer
from training.parallel import average_gradients, shard
from training.plan import ModelRef
from training.reader import Reader, Rows
from training.recipes import Recipe
from training.shares import HeadInput, TaskShares
from training.walk import CANDIDATE, Link
from training.weights import task_factors


@dataclass
class Trainee:
    """A model and all that changes with it while it trains.

    Attributes:
        schema: inputs and outputs.
        recipe: sizes and settings.
        compute: where, and beside whom.
        gem: the model's mathematics; its embedding collection is sharded when there is a group.
        model: what is called: `gem`, or TorchRec's wrapper around it.
        dense: optimizer of all but the tables, whose own is fused into the backward pass.
        monitor: of the gates over domain experts.
        factors: of the tasks' losses, see `weigh`.
    """

    schema: FeatureSchema
    recipe: Recipe
    compute: Compute
    gem: Gem
    model: nn.Module
    dense: DenseOptimizer
    monitor: GateMonitor
    factors: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Weigh tasks as one whose base rates are unknown, until told."""
        self.shares = TaskShares(self.schema.task_names)
        self.weigh({})

    def tensors(self) -> dict[str, Any]:
        """Weights and optimizer state by canonical name: the tensors themselves, plain or sharded."""
        weights = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        return weights | table_state(self.model) | self.dense.state()

    def touches(self) -> dict[str, Tensor]:
        """Touch counters added up over ranks, by canonical name."""
        counts = {f"touches.{table}": count.clone() for table, count in self.gem.touch_counts.items()}
        return {name: summed(count, self.compute) for name, count in counts.items()}

    def scores(self, reader: Reader, rows: Rows, link: Link = torch.sigmoid) -> dict[str, np.ndarray]:
        """Probabilities by role, see `training.walk.Trainee`."""
        return {CANDIDATE: score(self, reader, rows, link)}

    def train_on(self, reader: Reader, rows: Rows, where: str) -> Iterator[float]:
        """Train on each row once, see `train_on`."""
        return train_on(self, reader, rows, where)

    def gates(self) -> dict[str, dict[str, Any]]:
        """Gates over domain experts, see `training.gates`."""
        return self.monitor.report()

    def start_at(self, rates: Mapping[str, float]) -> None:
        """Start biases at base rates."""
        self.dense.change(partial(self.gem.start_at, rates))

    def weigh(self, rates: Mapping[str, float]) -> None:
        """Weigh tasks by the base rates that they started at."""
        self.factors = task_factors(self.recipe.task_weights, rates, self.schema.task_names)

    def load(self, ref: ModelRef, surfaces: Sequence[str] = ()) -> None:
        """Become the model of a checkpoint that has been verified.

        Args:
            ref: the checkpoint.
            surfaces: those that it was trained with, in its order; left out: the schema's. What a surface owns is
                found by its name, and new surfaces start cold, see `training.continuing`.
        """
        counts = {f"touches.{table}": torch.zeros_like(c) for table, c in self.gem.touch_counts.items()}
        state, trained = self.tensors() | counts, tuple(surfaces) or self.schema.surfaces
        if trained == self.schema.surfaces:
            checkpoint.load(state, Path(ref.path))
        else:
            held = by_surface(self.gem, state)
            loaded = room_for(held, trained)
            checkpoint.load(state | loaded, Path(ref.path))
            place(held, loaded, trained, self.schema.surfaces)
        for table, live in self.gem.touch_counts.items():
            # The sum over ranks is the truth, so one rank carries what came before.
            live.copy_(counts[f"touches.{table}"] if self.compute.rank == 0 else torch.zeros_like(live))


def build(schema: FeatureSchema, recipe: Recipe, seed: int, compute: Compute) -> Trainee:
    """A cold model: the same weights for the same seed, whatever the number of processes."""
    torch.manual_seed(seed)
    assert isinstance(recipe.model, GemConfig)
    gem = Gem(schema, recipe.model, Embeddings)
    fuse_tables(gem.embeddings.collection, recipe)
    model = shard(gem, compute)
    dense = {
        name: parameter
        for name, parameter in gem.named_parameters()
        if not name.startswith(TABLES_PREFIX) and parameter.requires_grad
    }
    monitor = GateMonitor(gem.trunk.experts, schema.surfaces, compute)
    return Trainee(schema, recipe, compute, gem, model, DenseOptimizer(dense, recipe, gem.surface_rows), monitor)


def train_step(trainee: Trainee, batch: Batch, where: str) -> float:
    """One step on this process's part of a global batch.

    Args:
        trainee: changes.
        batch: may be without labels; all processes step together.
        where: the step's place in the walk, for the message of an error.

    Returns:
        The loss of the global batch before the step: over tasks, the weighted sum of their mean log-losses.

    Raises:
        NonFinite: the loss or the dense gradient is not finite; tables may have moved, so the run must end.
    """
    trainee.model.train()
    with trainee.dense.training():
        return _step(trainee, batch, where)


def _step(trainee: Trainee, batch: Batch, where: str) -> float:
    compute, shares = trainee.compute, trainee.shares
    with HeadInput(trainee.gem.heads) as trunk:
        logits = trainee.model(batch)
    losses = gem_loss(logits, batch, trainee.schema, trainee.factors)
    loss_sum, count = summed(torch.stack([losses.loss_sum.detach(), losses.count]), compute)
    by_task = (loss_sum / torch.where(count > 0, count, 1.0)).tolist()
    loss = sum(by_task)
    if not np.isfinite(loss):
        named = dict(zip(trainee.schema.task_names, loss_sum.tolist(), strict=True))
        raise NonFinite(f"{where}: the loss is {loss} (sums by task: {named}); {mend()}")
    shares.add(by_task)
    if shares.gradient is None:
        shares.gradient = trunk.gradient_norms(losses.means(count), compute)
    trainee.gem.count_touches(batch)
    # Gradients are averaged over ranks, both by TorchRec and below; the factor makes their average a sum.
    (losses.total(count) * compute.world).backward()
    average_gradients(trainee.dense.parameters.values(), compute)
    norm = trainee.dense.step()
    if not np.isfinite(norm):
        raise NonFinite(f"{where}: the norm of the dense gradient is {norm}; {mend()}")
    trainee.gem.see(trainee.dense.surfaces.steps > 0)
    return loss


def train_on(trainee: Trainee, reader: Reader, rows: Rows, where: str) -> Iterator[float]:
    """Train on each row once; yields the loss of every global batch."""
    recipe = trainee.recipe
    trainee.shares.begin()
    parts = reader.batches(rows, trainee.schema, recipe.batch_size, trainee.compute.share, recipe.cut)
    for step, (_, batch) in enumerate(parts):
        yield train_step(trainee, batch.to(trainee.compute.device), f"{where}, step {step}")


@torch.no_grad()
def score(trainee: Trainee, reader: Reader, rows: Rows, link: Link = torch.sigmoid) -> np.ndarray:
    """Probabilities in the full log of every row and task, on every process: float32 [N, T].

    `link` makes them of raw logits; the identity leaves these.
    """
    trainee.model.eval()
    device = trainee.compute.device
    found = torch.zeros((len(rows), len(trainee.schema.tasks)), device=device)
    parts = reader.batches(
        rows,
        trainee.schema,
        trainee.recipe.score_batch_size,
        trainee.compute.share,
        trainee.recipe.cut,
    )
    for positions, batch in parts:
        logits = trainee.model(batch.to(device))
        found[torch.from_numpy(positions).to(device)] = link(logits)[: len(positions)]
    result: np.ndarray = summed(found, trainee.compute).cpu().numpy()
    return result
