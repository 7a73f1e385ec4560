"""Content embeddings as tokens: one linear map each, from a fixed vector and its missing mark to the model's width."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.interfaces import Inputs, VectorInput


class ContentTokens(nn.Module):
    """A token for each embedding; one that is missing has a learned token, the same for all that lack it.

    Args:
        entries: names and widths, in the order of the tokens.
        dim: d.
    """

    def __init__(self, entries: Sequence[VectorInput], dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.names = [entry.name for entry in entries]
        self.maps = nn.ModuleList(nn.Linear(entry.width + 1, dim) for entry in entries)

    @property
    def tokens(self) -> int:
        """Number of tokens n."""
        return len(self.names)

    def forward(self, batch: Inputs) -> Tensor:
        """Tokens of every example, [B, n, d]; n may be 0."""
        if not self.names:
            return batch.dense.new_zeros(len(batch.surface), 0, self.dim)
        found = [layer(batch.content[name]) for name, layer in zip(self.names, self.maps, strict=True)]
        return torch.stack(found, dim=1)
