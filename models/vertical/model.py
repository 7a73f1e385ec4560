"""A vertical model: id and dense features, same-id matching, a memory and a precomputed vector of GEM's.

Two heads on one trunk (ExFM, arXiv 2502.17494): the serving head sees labels only, the auxiliary head sees the
teacher only, so a biased teacher shapes the trunk and never the served probability. GEM is not part of it: its
knowledge comes as inputs that were made before, and as a teacher while training.

Logits are those of the full log, as GEM's are; the sampling offset is added inside the losses and nowhere else.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from models.interfaces import Inputs, Schema, TransferInputs
from models.layers.content import ContentTokens
from models.layers.decay import DecayedSums
from models.layers.heads import TaskHeads
from models.layers.matching import Matching
from models.layers.memory import DAY_SECONDS, MemoryReader
from models.layers.mlp import MLP
from models.layers.tables import PlainTables
from models.vertical.config import VerticalConfig


class VerticalLogits(NamedTuple):
    """Raw logits of the full log, float32 [B, T] each; `taught` is the auxiliary head's."""

    served: Tensor
    taught: Tensor


class VerticalModel(nn.Module):
    """A small ranking model.

    Args:
        schema: inputs and outputs.
        config: sizes.
        width: numbers of a GEM vector; 0 builds the model alone, without memory and precomputed vectors.
        sources: kinds of precomputed vectors.
    """

    def __init__(self, schema: Schema, config: VerticalConfig, width: int, sources: int) -> None:
        super().__init__()
        types, tasks, surfaces = 1 + len(schema.event_types), len(schema.tasks), len(schema.surfaces)
        self.task_names = [task.name for task in schema.tasks]
        self.names = [feature.name for feature in schema.categorical]
        self.matched = {field.name: field.candidate for field in schema.history.fields if field.candidate}
        self.feature_vectors = nn.Parameter(torch.randn(len(self.names), config.dim) * config.dim**-0.5)
        self.matching = Matching(list(self.matched), config.matching_taus, types)
        self.activity = DecayedSums(config.matching_taus, types)
        numbers = self.matching.width + self.activity.width + schema.dense_width
        self.numbers = MLP(numbers, (config.dense_hidden,), config.dense_hidden, config.dropout)
        self.content = ContentTokens(schema.content, config.dim)
        ids = (len(self.names) + self.content.tokens) * config.dim
        self.width, self.auxiliary_gradient = width, config.auxiliary_gradient
        if width:
            self.memory = MemoryReader(ids, width)
            self.source = nn.Embedding.from_pretrained(torch.zeros(sources, width), freeze=False)
        wide = ids + config.dense_hidden + (self.memory.width + 2 * width if width else 0)
        *hidden, last = config.trunk_hidden
        self.trunk = MLP(wide, hidden, last, config.dropout)
        self.heads = TaskHeads(last, tasks, surfaces)
        self.auxiliary = TaskHeads(last, tasks, surfaces)
        # a linear path beside the trunk finds base rates and popularity in the first steps of a single pass
        self.linear = nn.Linear(ids + numbers, tasks, bias=False)
        nn.init.zeros_(self.linear.weight)
        self.embeddings = PlainTables(schema, config.dim, sparse=True, history=False)

    def forward(self, batch: Inputs, transfer: TransferInputs) -> VerticalLogits:
        """Logits of every example and task."""
        found, _ = self.embeddings(batch)
        features = torch.stack([found[name] for name in self.names], dim=1) + self.feature_vectors
        ids = torch.cat([features, self.content(batch)], dim=1).flatten(1)
        numbers = self._numbers(batch)
        parts = [ids, self.numbers(numbers).relu()]
        if self.width:
            parts.append(
                self.memory(ids, transfer.memory_lengths, transfer.memory, transfer.memory_age, transfer.memory_row)
            )
            parts += [transfer.vector, self.source(transfer.source)]
        hidden = self.trunk(torch.cat(parts, dim=1)).relu()
        linear = self.linear(torch.cat([ids, numbers], dim=1))
        served = self.heads(hidden, batch.surface) + linear
        beta = self.auxiliary_gradient
        lesson = beta * hidden + (1.0 - beta) * hidden.detach()
        return VerticalLogits(served.float(), self.auxiliary(lesson, batch.surface).float())

    def _numbers(self, batch: Inputs) -> Tensor:
        """Matching with the history, its activity and the dense features: [B, n]."""
        lengths, age, span = batch.history_lengths, batch.history_age / DAY_SECONDS, batch.history_span / DAY_SECONDS
        owner = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
        activity = self.activity(owner, age, batch.history_type, span)
        candidates = {field: batch.categorical[name] for field, name in self.matched.items()}
        row = batch.rows_of_history
        matched = self.matching(candidates, batch.history, row, lengths, age, batch.history_type, span)
        return torch.cat([matched, activity[row], batch.dense], dim=1)

    @torch.no_grad()
    def start_at(self, rates: Mapping[str, float]) -> None:
        """Start the heads' biases at base rates of the full log, inside (0, 1), by task."""
        for task, rate in rates.items():
            for heads in (self.heads, self.auxiliary):
                heads.tasks.bias[self.task_names.index(task)] = math.log(rate / (1 - rate))
