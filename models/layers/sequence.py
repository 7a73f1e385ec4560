"""The sequence block: event tokens, attention in blocks, GDPA against the request's context, a summary.

It runs once per request, whatever the number of candidates, and sees nothing of a candidate.
"""

import torch
from torch import Tensor, nn

from models.layers.attention import BlockSelfAttention
from models.layers.blocks import BlockLayout
from models.layers.gdpa import GDPA
from models.layers.pooling import SeedPooling

AGE_SCALES_DAYS = (0.25, 1.0, 7.0, 28.0, 120.0)


def age_features(age_days: Tensor) -> Tensor:
    """How long ago, on several scales: [T] -> [T, 6], each about in [0, 1]."""
    scales = age_days.new_tensor(AGE_SCALES_DAYS)
    return torch.cat([torch.log1p(age_days)[:, None] / 6.0, torch.exp(-age_days[:, None] / scales)], dim=1)


class EventTokens(nn.Module):
    """Token of an event: the sum of its fields' embeddings, its type's embedding and an encoding of its age.

    Args:
        dim: d.
        types: event types, the unknown one included.
    """

    def __init__(self, dim: int, types: int) -> None:
        super().__init__()
        self.kind = nn.Embedding(types, dim)
        self.age = nn.Linear(1 + len(AGE_SCALES_DAYS), dim)

    def forward(self, fields: list[Tensor], types: Tensor, age_days: Tensor) -> Tensor:
        """Field embeddings [T, d] each, types [T], ages [T] -> [T, d]."""
        token: Tensor = self.kind(types) + self.age(age_features(age_days))
        for field in fields:
            token = token + field
        return token


class SequenceBlock(nn.Module):
    """History -> summary tokens.

    Args:
        dim: d.
        heads: attention heads.
        block: tokens per attention block.
        seeds: m of the summariser.
        tokens: t of the summariser.
        terms: r of its SumKronLinear.
    """

    def __init__(self, *, dim: int, heads: int, block: int, seeds: int, tokens: int, terms: int) -> None:
        super().__init__()
        self.block = block
        self.attention = BlockSelfAttention(dim, heads)
        self.gdpa = GDPA(dim, heads)
        self.pool = SeedPooling(dim=dim, heads=heads, seeds=seeds, tokens=tokens, terms=terms)

    def forward(self, events_TD: Tensor, lengths: Tensor, context_RCD: Tensor) -> Tensor:
        """Events of all rows [T, d], lengths [R], context tokens [R, c, d] -> summary [R, t, d]."""
        layout = BlockLayout.of(lengths, self.block)
        x_NLD = self.attention(layout.pack(events_TD), layout)
        x_NLD = self.gdpa(x_NLD, context_RCD, layout.row)
        summary: Tensor = self.pool(x_NLD, layout)
        return summary
