"""Cross-layer path: a layer's tokens may also read what earlier layers made, through a gate that starts closed.

Two paths in parallel: the identity, and attention over compressed outputs of all earlier layers with SiLU for weights
instead of a softmax, so that several may be heard at once and some with a negative sign. A gate of one number a
dimension shares the result between them; it starts at 0, so a model with the path is at first the model without it.
Nobody published GEM's cross-layer attention; this follows DeRes, arXiv 2606.07980 (abstract), with the gate's start and
the compression chosen here. Shapes: B examples, n tokens, d width, c tokens kept of each earlier layer.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.layers.gdpa import gdpa
from models.layers.norm import normalise

KEPT = 4
"""Tokens kept of each earlier layer."""


class CrossLayerPath(nn.Module):
    """X -> (1 - g) X + g A, A = SiLU(Q K^T / sqrt(d)) V / (tokens seen) over earlier outputs.

    Args:
        dim: d.
        tokens: n.
        earlier: tokens of each earlier output, oldest first; the counts may differ.
        kept: c.
    """

    def __init__(self, dim: int, tokens: int, earlier: Sequence[int], kept: int = KEPT) -> None:
        super().__init__()
        self.compress = nn.ParameterList(torch.randn(kept, count) * count**-0.5 for count in earlier)
        # A token asks as what it is and as which one it is; so does what it finds.
        self.place_ND = nn.Parameter(torch.zeros(tokens, dim))
        self.layer_CD = nn.Parameter(torch.zeros(kept * len(earlier), dim))
        self.query = nn.Linear(dim, dim, bias=False)
        self.keys_values = nn.Linear(dim, 2 * dim, bias=False)
        self.gate_D = nn.Parameter(torch.zeros(dim))

    def forward(self, x_BND: Tensor, earlier: Sequence[Tensor]) -> Tensor:
        """Tokens [B, n, d] and outputs [B, n_i, d] of earlier layers -> [B, n, d].

        Raises:
            ValueError: not as many earlier outputs as the path was made for.
        """
        read = self.read(x_BND, earlier)
        return x_BND + self.gate_D * (read - x_BND)

    def read(self, x_BND: Tensor, earlier: Sequence[Tensor]) -> Tensor:
        """The second path, before the gate: [B, n, d]."""
        if len(earlier) != len(self.compress):
            raise ValueError(f"made for {len(self.compress)} earlier outputs, got {len(earlier)}")
        kept = torch.cat([matrix @ output for matrix, output in zip(self.compress, earlier, strict=True)], dim=1)
        k, v = self.keys_values(normalise(kept) + self.layer_CD).chunk(2, -1)
        q = normalise(self.query(normalise(x_BND) + self.place_ND))
        return gdpa(q, normalise(k), v, activation="silu", inside=q.shape[-1] ** -0.5, outside=1 / k.shape[1])
