"""DHEN layer: unlike interactions side by side over the same tokens, joined, with a shortcut and a norm.

Source: "DHEN: A Deep and Hierarchical Ensemble Network", arXiv 2203.11014: X -> Norm(Ensemble_i I_i(X) + Shortcut(X)).
How to join is left open there; here outputs are concatenated and, when there are several, a linear map over tokens
brings them back to as many as came in. Shapes: B examples, n tokens, d width.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.attention import merge_heads, split_heads
from models.layers.norm import normalise


class TokenAttention(nn.Module):
    """Self-attention among an example's tokens, one of the interactions to join: [B, n, d] -> [B, n, d].

    Args:
        tokens: n.
        dim: d.
        heads: heads.
    """

    def __init__(self, *, tokens: int, dim: int, heads: int) -> None:
        super().__init__()
        self.out_tokens, self.heads = tokens, heads
        self.project = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x_BND: Tensor) -> Tensor:
        """[B, n, d] -> [B, n, d], without a residual: the layer has the shortcut."""
        q, k, v = (split_heads(part, self.heads) for part in self.project(normalise(x_BND)).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(normalise(q), normalise(k), v)
        result: Tensor = self.out(merge_heads(mixed))
        return result


class DHENLayer(nn.Module):
    """[B, n, d] -> [B, m, d]: m = n for several interactions; one alone keeps its number of tokens.

    `out_tokens` is m.

    Args:
        interactions: modules [B, n, d] -> [B, m_i, d] that say m_i as `out_tokens`.
        tokens: n.
    """

    def __init__(self, interactions: Sequence[nn.Module], *, tokens: int) -> None:
        super().__init__()
        self.interactions = nn.ModuleList(interactions)
        made: list[Any] = [module.out_tokens for module in interactions]
        self.out_tokens: int = tokens if len(made) > 1 else made[0]
        self.join = token_map(sum(made), tokens) if len(made) > 1 else None
        self.shortcut = token_map(tokens, self.out_tokens) if self.out_tokens != tokens else None

    def forward(self, x_BND: Tensor) -> Tensor:
        """[B, n, d] -> [B, m, d]."""
        made = torch.cat([interaction(x_BND) for interaction in self.interactions], dim=1)
        joined = made if self.join is None else self.join @ made
        return normalise(joined + (x_BND if self.shortcut is None else self.shortcut @ x_BND))


def token_map(tokens: int, out: int) -> nn.Parameter:
    """A linear map over tokens, [out, n], that keeps the variance of unlike tokens."""
    return nn.Parameter(torch.randn(out, tokens) * tokens**-0.5)
