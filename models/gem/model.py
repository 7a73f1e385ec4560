"""GEM: tables, a sequence block per request, same-id matching, Wukong interaction and multi-task heads.

Per request (R of them): event tokens -> sequence block, against context tokens of what all its candidates
share -> summary tokens. Per example (B): feature, surface, dense, matching and summary tokens -> Wukong ->
trunk -> heads. A linear path from all tokens to the logits runs beside it: it learns base rates and
popularity in the first steps of a single pass.

The logits are those of the full log: what sampling does to the odds is added inside the loss, nowhere else.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from models.gem.config import DAY_SECONDS, GemConfig
from models.interfaces import Inputs, Schema
from models.layers.decay import DecayedSums
from models.layers.heads import TaskHeads
from models.layers.matching import Matching
from models.layers.mlp import MLP
from models.layers.sequence import EventTokens, SequenceBlock
from models.layers.tables import PlainTables
from models.layers.touches import TouchCounters
from models.layers.wukong import WukongLayer


class Gem(nn.Module):
    """The foundation model.

    Args:
        schema: inputs and outputs.
        config: sizes.
        tables: makes the embedding tables of a schema and width: plain ones, or `models.gem.embeddings.Embeddings`
            for TorchRec's, which can be sharded.
    """

    def __init__(
        self, schema: Schema, config: GemConfig, tables: Callable[[Schema, int], nn.Module] = PlainTables
    ) -> None:
        super().__init__()
        dim, types = config.dim, 1 + len(schema.event_types)
        self.config = config
        self.task_names = [task.name for task in schema.tasks]
        self.names = [feature.name for feature in schema.categorical]
        self.request_names = [feature.name for feature in schema.categorical if feature.side == "request"]
        self.matched = {field.name: field.candidate for field in schema.history.fields if field.candidate}
        self.touches = TouchCounters(dict(schema.tables))
        self.feature_vectors = nn.Parameter(torch.randn(len(self.names), dim) * dim**-0.5)
        self.surface = nn.Embedding(len(schema.surfaces), dim)
        self._build_request_side(types)
        self.matching = Matching(list(self.matched), config.matching_taus, types)
        width = self.matching.width + self.activity.width
        self.matching_tokens = MLP(width, (config.matching_hidden,), config.matching_tokens * dim, config.dropout)
        hidden = (config.dense_hidden,)
        self.dense_tokens = MLP(schema.dense_width, hidden, config.dense_tokens * dim, config.dropout)
        self._build_interaction(len(self.names) + 1, len(schema.tasks), len(schema.surfaces))
        self.linear_numbers = nn.Linear(width + schema.dense_width, len(schema.tasks), bias=False)
        nn.init.zeros_(self.linear_numbers.weight)
        # Last: making tables draws random numbers (then zeroes them) except on `meta`, and all else must start
        # the same from one seed, sharded or not.
        self.embeddings: Any = tables(schema, dim)

    def _build_request_side(self, types: int) -> None:
        config = self.config
        self.activity = DecayedSums(config.matching_taus, types)
        self.event_tokens = EventTokens(config.dim, types)
        width = self.activity.width + len(self.request_names) * config.dim
        self.context = MLP(width, (config.matching_hidden,), config.context_tokens * config.dim)
        self.sequence = SequenceBlock(
            dim=config.dim,
            heads=config.attention_heads,
            block=config.history_block,
            seeds=config.seeds,
            tokens=config.summary_tokens,
            terms=config.sum_kron_rank,
        )

    def _build_interaction(self, single_tokens: int, tasks: int, surfaces: int) -> None:
        config = self.config
        made = config.dense_tokens + config.matching_tokens + config.summary_tokens
        tokens, after = single_tokens + made, config.wukong_fm_tokens + config.wukong_linear_tokens
        self.linear_tokens = nn.Linear(tokens * config.dim, tasks, bias=False)
        self.wukong = nn.Sequential()
        for layer in range(config.wukong_layers):
            self.wukong.append(
                WukongLayer(
                    tokens=after if layer else tokens,
                    dim=config.dim,
                    fm_tokens=config.wukong_fm_tokens,
                    linear_tokens=config.wukong_linear_tokens,
                    rank=config.wukong_rank,
                    hidden=config.wukong_hidden,
                    dropout=config.dropout,
                )
            )
        *hidden, width = config.head_hidden
        self.trunk = MLP(after * config.dim, hidden, width, config.dropout)
        self.heads = TaskHeads(width, tasks, surfaces)

    @property
    def touch_counts(self) -> dict[str, Tensor]:
        """Local touch counters by table, int64 [rows]."""
        return self.touches.counts()

    def count_touches(self, batch: Inputs) -> None:
        """Count the rows that training on `batch` moves.

        Call it once per training step, never when scoring.
        """
        self.touches.update(self.embeddings, batch)

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
        x_BCD = torch.stack([found[name] for name in self.names], dim=1) + self.feature_vectors
        activity, summary = self._encode_requests(batch, x_BCD, events)
        row = batch.rows_of_history
        numbers = torch.cat([self._match(batch), activity[row]], dim=1)
        shape = (-1, self.config.dim)
        tokens = torch.cat(
            [
                x_BCD,
                self.surface(batch.surface)[:, None],
                self.dense_tokens(batch.dense).unflatten(1, shape),
                self.matching_tokens(numbers).unflatten(1, shape),
                summary[row],
            ],
            dim=1,
        )
        interaction = self.wukong(tokens).flatten(1)
        hidden = self.trunk(interaction).relu()
        linear = self.linear_tokens(tokens.flatten(1)) + self.linear_numbers(torch.cat([numbers, batch.dense], 1))
        logits: Tensor = self.heads(hidden, batch.surface) + linear
        return logits.float(), {"interaction": interaction, "trunk": hidden}

    def _encode_requests(self, batch: Inputs, x_BCD: Tensor, events: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Activity features [R, w] and summary tokens [R, t, d] of every request.

        Nothing of a candidate enters.
        """
        lengths, age_days = batch.history_lengths, batch.history_age / DAY_SECONDS
        requests = torch.arange(len(lengths), device=lengths.device)
        owner = torch.repeat_interleave(requests, lengths)
        activity = self.activity(owner, age_days, batch.history_type, batch.history_span / DAY_SECONDS)
        examples = torch.arange(len(batch.surface), device=lengths.device)
        # Any example of a request will do: they agree in all that belongs to the request.
        example = torch.zeros_like(requests).scatter_reduce(
            0, batch.rows_of_history, examples, "amin", include_self=False
        )
        shared = [x_BCD[example, self.names.index(name)] for name in self.request_names]
        context = self.context(torch.cat([activity, *shared], dim=1)).unflatten(1, (-1, self.config.dim))
        tokens = self.event_tokens(list(events.values()), batch.history_type, age_days)
        return activity, self.sequence(tokens, lengths, context)

    def _match(self, batch: Inputs) -> Tensor:
        """Matching features of every example, [B, w]."""
        numbers: Tensor = self.matching(
            {field: batch.categorical[name] for field, name in self.matched.items()},
            batch.history,
            batch.rows_of_history,
            batch.history_lengths,
            batch.history_age / DAY_SECONDS,
            batch.history_type,
            batch.history_span / DAY_SECONDS,
        )
        return numbers
