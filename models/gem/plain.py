"""Siblings without a sequence stack, on the same inputs: DLRM and DCNv2 over a mean of the history.

They are the controls that every sequence architecture has to beat. Sources: DLRM, arXiv 1906.00091; DCNv2,
arXiv 2008.13535.
"""

import torch
from torch import Tensor, nn

from models.gem.backbone import Events, Sizes
from models.gem.config import GemConfig
from models.layers.cross import CrossTokens
from models.layers.dot import DotInteraction


def mean_of(events: Events) -> Tensor:
    """Mean token of each history, [R, d]; zeros where there is none."""
    mask = events.layout.mask
    total = events.layout.sum_by_row((events.x_NLD * mask[..., None]).sum(1))
    count = events.layout.sum_by_row(mask.sum(1)).clamp(min=1)
    return total / count[:, None]


def all_tokens(own_BND: Tensor, shared_RMD: Tensor, towers: list[Events], row_B: Tensor) -> Tensor:
    """A candidate's tokens beside its request's and the mean of each history, [B, n + m + towers, d]."""
    history = torch.stack([mean_of(events) for events in towers], dim=1)
    return torch.cat([own_BND, torch.cat([shared_RMD, history], dim=1)[row_B]], dim=1)


class DLRM(nn.Module):
    """Dot products of all pairs of tokens, compressed to tokens by a linear map.

    Args:
        config: sizes.
        sizes: tokens that come in.
    """

    def __init__(self, config: GemConfig, sizes: Sizes) -> None:
        super().__init__()
        tokens = sum(sizes)
        self.dot = DotInteraction(tokens=tokens, dim=config.dim, out_tokens=config.wukong_fm_tokens)
        self.out_tokens = tokens + config.wukong_fm_tokens

    def forward(self, own_BND: Tensor, shared_RMD: Tensor, towers: list[Events], row_B: Tensor) -> Tensor:
        """See `models.gem.backbone.Backbone`."""
        tokens = all_tokens(own_BND, shared_RMD, towers, row_B)
        return torch.cat([tokens, self.dot(tokens)], dim=1)


class DCNv2(nn.Module):
    """Cross layers over all tokens side by side.

    Args:
        config: sizes.
        sizes: tokens that come in.
    """

    def __init__(self, config: GemConfig, sizes: Sizes) -> None:
        super().__init__()
        self.out_tokens = sum(sizes)
        rank = config.cross_rank or None
        self.cross = CrossTokens(tokens=self.out_tokens, dim=config.dim, layers=config.layers, rank=rank)

    def forward(self, own_BND: Tensor, shared_RMD: Tensor, towers: list[Events], row_B: Tensor) -> Tensor:
        """See `models.gem.backbone.Backbone`."""
        crossed: Tensor = self.cross(all_tokens(own_BND, shared_RMD, towers, row_B))
        return crossed
