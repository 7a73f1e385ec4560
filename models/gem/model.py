"""GEM: tables, tokens of requests and candidates, a backbone, and multi-task heads.

Per request (R of them): shared tokens and histories. Per example (B): its own tokens. The backbone (Kunlun, or a
sibling on the same interface) makes tokens of both; a trunk, with shared experts and experts of each surface, and
heads make logits. A linear path from all tokens to the logits runs beside it: it learns base rates and popularity in
the first steps of a single pass.

The logits are those of the full log: what sampling does to the odds is added inside the loss, nowhere else.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from models.gem.architectures import backbone_of
from models.gem.backbone import Sizes
from models.gem.config import GemConfig
from models.gem.tokens import CandidateSide, RequestSide
from models.gem.trunk import Trunk
from models.interfaces import Inputs, Schema
from models.layers.heads import TaskHeads
from models.layers.tables import PlainTables
from models.layers.touches import TouchCounters


class Gem(nn.Module):
    """The foundation model.

    Args:
        schema: inputs and outputs.
        config: sizes and architecture.
        tables: makes the embedding tables of a schema and width: plain ones, or `models.gem.embeddings.Embeddings`
            for TorchRec's, which can be sharded.
    """

    def __init__(
        self, schema: Schema, config: GemConfig, tables: Callable[[Schema, int], nn.Module] = PlainTables
    ) -> None:
        super().__init__()
        dim, tasks = config.dim, len(schema.tasks)
        self.config = config
        self.task_names = [task.name for task in schema.tasks]
        self.touches = TouchCounters(dict(schema.tables))
        self.requests = RequestSide(schema, config)
        self.candidates = CandidateSide(schema, config, self.requests.activity.width)
        own, shared = self.candidates.tokens, self.requests.tokens
        self.backbone = backbone_of(config, Sizes(own, shared, self.requests.towers))
        surfaces = len(schema.surfaces)
        self.trunk = Trunk(self.backbone.out_tokens * dim, config, surfaces)
        self.heads = TaskHeads(config.head_hidden[-1], tasks, surfaces, conditioned=config.surface_conditioning)
        self.linear_own = nn.Linear(own * dim, tasks, bias=False)
        self.linear_shared = nn.Linear(shared * dim, tasks, bias=False)
        self.linear_numbers = nn.Linear(self.candidates.width + schema.dense_width, tasks, bias=False)
        nn.init.zeros_(self.linear_numbers.weight)
        # Last: making tables draws random numbers (then zeroes them) except on `meta`, and all else must start
        # the same from one seed, sharded or not.
        self.embeddings: Any = tables(schema, dim)

    @property
    def touch_counts(self) -> dict[str, Tensor]:
        """Local touch counters by table, int64 [rows]."""
        return self.touches.counts()

    def count_touches(self, batch: Inputs) -> None:
        """Count the rows that training on `batch` moves.

        Call it once per training step, never when scoring.
        """
        self.touches.update(self.embeddings, batch)

    @property
    def surface_rows(self) -> set[str]:
        """Names of the parameters whose first dimension is the surface: a row is moved by its surface's data alone."""
        return {
            f"{name}.{own}"
            for name, module in self.named_modules()
            for own in getattr(module, "BY_SURFACE", ())
            if own in dict(module.named_parameters())
        }

    def see(self, surfaces: Tensor) -> None:
        """Let the own experts of surfaces that have been trained on answer from now on; bool [S]."""
        if self.trunk.experts is not None:
            self.trunk.experts.see(surfaces)

    @torch.no_grad()
    def start_at(self, rates: Mapping[str, float]) -> None:
        """Start a cold model's biases at base rates of the full log, so that no step is spent finding them.

        Raises:
            ValueError: on an unknown task or a rate outside (0, 1).
        """
        for task, rate in rates.items():
            if task not in self.task_names or not 0 < rate < 1:
                raise ValueError(f"task '{task}', rate {rate}: give a rate inside (0, 1) of one of {self.task_names}")
            self.heads.tasks.bias[self.task_names.index(task)] = math.log(rate / (1 - rate))

    def forward(self, batch: Inputs) -> Tensor:
        """Raw logits of the full log, float32 [B, T]."""
        return self.represent(batch)[0]

    def represent(self, batch: Inputs) -> tuple[Tensor, dict[str, Tensor]]:
        """Raw logits [B, T] and the hidden activations that others may learn from, by layer: [B, w] each."""
        found, events = self.embeddings(batch)
        activity, shared, towers = self.requests(batch, found, events)
        own, numbers = self.candidates(batch, found, activity)
        row = batch.rows_of_history
        interaction = self.backbone(own, shared, towers, row).flatten(1)
        hidden = self.trunk(interaction, batch.surface)
        linear = (
            self.linear_own(own.flatten(1))
            + self.linear_shared(shared.flatten(1))[row]
            + self.linear_numbers(torch.cat([numbers, batch.dense], dim=1))
        )
        logits: Tensor = self.heads(hidden, batch.surface) + linear
        return logits.float(), {"interaction": interaction, "trunk": hidden}
