"""Cross layers of DCNv2: each multiplies the input, element by element, with a linear map of what came before.

Source: "DCN V2: Improved Deep & Cross Network", arXiv 2008.13535, equations 1 and 2 (low rank: W = U V^T). l layers
hold crosses of up to l + 1 fields. Shapes: B examples, w width (all tokens side by side), r rank.
"""

import torch
from torch import Tensor, nn


class CrossNetV2(nn.Module):
    """x_{l+1} = x_0 * (W_l x_l + b_l) + x_l.

    Args:
        width: w.
        layers: number of cross layers.
        rank: r of every W = U V^T; None for a full matrix.
    """

    def __init__(self, width: int, layers: int, rank: int | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(self._map(width, rank) for _ in range(layers))

    @staticmethod
    def _map(width: int, rank: int | None) -> nn.Module:
        if rank is None:
            return nn.Linear(width, width)
        return nn.Sequential(nn.Linear(width, rank, bias=False), nn.Linear(rank, width))

    def forward(self, x_BW: Tensor) -> Tensor:
        """[B, w] -> [B, w]."""
        crossed = x_BW
        for layer in self.layers:
            crossed = x_BW * layer(crossed) + crossed
        return crossed


class CrossTokens(nn.Module):
    """`CrossNetV2` over tokens side by side, as an interaction: [B, n, d] -> [B, n, d].

    Args:
        tokens: n.
        dim: d.
        layers: number of cross layers.
        rank: r; None for full matrices.
    """

    def __init__(self, *, tokens: int, dim: int, layers: int = 1, rank: int | None = None) -> None:
        super().__init__()
        self.out_tokens = tokens
        self.cross = CrossNetV2(tokens * dim, layers, rank)

    def forward(self, x_BND: Tensor) -> Tensor:
        """[B, n, d] -> [B, n, d]."""
        crossed: Tensor = self.cross(x_BND.flatten(1))
        return torch.unflatten(crossed, 1, x_BND.shape[1:])
