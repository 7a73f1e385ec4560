"""From a batch to tokens: what belongs to a request once, what belongs to a candidate once a row."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from models.gem.backbone import Events
from models.gem.config import DAY_SECONDS, GemConfig
from models.interfaces import Inputs, Schema
from models.layers.blocks import BlockLayout
from models.layers.content import ContentTokens
from models.layers.decay import DecayedSums
from models.layers.events import EventTokens
from models.layers.matching import Matching
from models.layers.mlp import MLP
from models.layers.rotary import TemporalRotary

TIME_SCALE_DAYS = 1.0
"""Ages enter rotary angles as log(1 + age / this)."""


class RequestSide(nn.Module):
    """Tokens of R requests and of their histories; nothing of a candidate enters.

    Args:
        schema: inputs.
        config: sizes.
    """

    def __init__(self, schema: Schema, config: GemConfig) -> None:
        super().__init__()
        types = 1 + len(schema.event_types)
        self.config, self.types = config, types
        self.names = [feature.name for feature in schema.categorical if feature.side == "request"]
        self.feature_vectors = _feature_vectors(len(self.names), config.dim)
        self.activity = DecayedSums(config.matching_taus, types)
        self.activity_tokens = MLP(
            self.activity.width, (config.context_hidden,), config.activity_tokens * config.dim, config.dropout
        )
        self.event_tokens = EventTokens(config.dim, types, projected=config.event_projection)
        self.rotary = TemporalRotary(config.dim // config.attention_heads, time_scale_days=TIME_SCALE_DAYS)
        self.content = ContentTokens([entry for entry in schema.content if entry.side == "request"], config.dim)
        self.tokens = config.activity_tokens + len(self.names) + self.content.tokens
        self.towers = types if config.sequence == "towers" else 1

    def forward(
        self, batch: Inputs, found: Mapping[str, Tensor], events: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor, list[Events]]:
        """Encode the requests.

        Args:
            batch: B examples of R requests.
            found: categorical vectors by name, [B, d] each.
            events: history vectors by field, [L, d] each.

        Returns:
            Activity numbers [R, w], shared tokens [R, m, d], and histories in blocks, one a tower.
        """
        lengths, age_days = batch.history_lengths, batch.history_age / DAY_SECONDS
        requests = torch.arange(len(lengths), device=lengths.device)
        owner = torch.repeat_interleave(requests, lengths)
        activity = self.activity(owner, age_days, batch.history_type, batch.history_span / DAY_SECONDS)
        example = _any_example(batch, len(requests))
        shared = [self.activity_tokens(activity).unflatten(1, (-1, self.config.dim)), self.content(batch)[example]]
        if self.names:
            shared.append(torch.stack([found[name][example] for name in self.names], dim=1) + self.feature_vectors)
        tokens = self.event_tokens(list(events.values()), batch.history_type, age_days)
        return activity, torch.cat(shared, dim=1), self._towers(tokens, batch.history_type, age_days, owner, lengths)

    def _towers(self, tokens: Tensor, types: Tensor, age_days: Tensor, owner: Tensor, lengths: Tensor) -> list[Events]:
        if self.towers == 1:
            return [self._packed(tokens, age_days, lengths)]
        found = []
        for kind in range(self.types):
            mine = torch.nonzero(types == kind).squeeze(1)
            counts = torch.zeros_like(lengths).index_add(0, owner[mine], torch.ones_like(owner[mine]))
            found.append(self._packed(tokens[mine], age_days[mine], counts))
        return found

    def _packed(self, tokens: Tensor, age_days: Tensor, lengths: Tensor) -> Events:
        layout = BlockLayout.of(lengths, self.config.attention_block)
        x_NLD = layout.pack(tokens)
        if not self.config.rotary:
            return Events(x_NLD, layout)
        age_NL = layout.pack(age_days[:, None]).squeeze(-1)
        return Events(x_NLD, layout, self.rotary(age_NL, layout.index))


class CandidateSide(nn.Module):
    """Tokens of B candidates: features, surface, numbers, and what the user did with the very same ids.

    Args:
        schema: inputs.
        config: sizes.
        activity_width: numbers that each request adds.
    """

    BY_SURFACE = ("surface.weight",)
    """Parameters whose first dimension is the surface."""

    def __init__(self, schema: Schema, config: GemConfig, activity_width: int) -> None:
        super().__init__()
        dim = config.dim
        self.dim = dim
        self.names = [feature.name for feature in schema.categorical if feature.side == "candidate"]
        self.matched = {field.name: field.candidate for field in schema.history.fields if field.candidate}
        self.feature_vectors = _feature_vectors(len(self.names), dim)
        self.surface = nn.Embedding(len(schema.surfaces), dim)
        self.matching = Matching(list(self.matched), config.matching_taus, 1 + len(schema.event_types))
        self.width = self.matching.width + activity_width
        self.matching_tokens = MLP(self.width, (config.matching_hidden,), config.matching_tokens * dim, config.dropout)
        self.dense_tokens = MLP(schema.dense_width, (config.dense_hidden,), config.dense_tokens * dim, config.dropout)
        self.content = ContentTokens([entry for entry in schema.content if entry.side == "candidate"], dim)
        self.tokens = len(self.names) + 1 + self.content.tokens + config.dense_tokens + config.matching_tokens

    def forward(self, batch: Inputs, found: Mapping[str, Tensor], activity: Tensor) -> tuple[Tensor, Tensor]:
        """Encode the candidates.

        Args:
            batch: B examples.
            found: categorical vectors by name, [B, d] each.
            activity: float [R, w].

        Returns:
            Own tokens [B, n, d] and the numbers of matching and activity [B, w].
        """
        numbers = torch.cat([self._match(batch), activity[batch.rows_of_history]], dim=1)
        tokens = [
            self.surface(batch.surface)[:, None],
            self.content(batch),
            self.dense_tokens(batch.dense).unflatten(1, (-1, self.dim)),
            self.matching_tokens(numbers).unflatten(1, (-1, self.dim)),
        ]
        if self.names:
            tokens.insert(0, torch.stack([found[name] for name in self.names], dim=1) + self.feature_vectors)
        return torch.cat(tokens, dim=1), numbers

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


def _feature_vectors(features: int, dim: int) -> nn.Parameter:
    """What a feature's token holds beside its table row, which starts at zero: products need something to grow from."""
    return nn.Parameter(torch.randn(features, dim) * dim**-0.5)


def _any_example(batch: Inputs, requests: int) -> Tensor:
    """An example of each request, [R]: any will do, they agree in all that belongs to the request."""
    row = batch.rows_of_history
    examples = torch.arange(len(row), device=row.device)
    return row.new_zeros(requests).scatter_reduce(0, row, examples, "amin", include_self=False)
