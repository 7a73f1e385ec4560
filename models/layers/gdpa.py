"""Generalised dot-product attention (GDPA), the per-example feed-forward network: act(Q K^T) V.

Sources: arXiv 2602.10016 (summaries) and Meta's published kernels. The scale stands outside the activation,
as in those kernels: inside, a division by a sequence length would leave only the activation's linear part.
There is no softmax.
"""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

from models.layers.attention import merge_heads, split_heads
from models.layers.norm import normalise

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "silu": functional.silu,
    "relu": functional.relu,
    "sigmoid": lambda x: x.sigmoid(),
    "identity": lambda x: x,
}


def gdpa(
    q: Tensor, k: Tensor, v: Tensor, *, activation: str = "gelu", inside: float = 1.0, outside: float = 1.0
) -> Tensor:
    """Compute outside * act(inside * Q K^T) V.

    Args:
        q: [..., L, d].
        k: [..., c, d].
        v: [..., c, d].
        activation: a name in `ACTIVATIONS`.
        inside: scale before the activation.
        outside: scale after it.

    Returns:
        [..., L, d].
    """
    return outside * (ACTIVATIONS[activation](inside * (q @ k.transpose(-1, -2))) @ v)


class GDPA(nn.Module):
    """Events ask the context tokens of their own request: S + GDPA(Norm(S), W1 C, W2 C), scaled by 1 / c.

    Args:
        dim: d.
        heads: heads.
        activation: a name in `ACTIVATIONS`.
    """

    def __init__(self, dim: int, heads: int, activation: str = "gelu") -> None:
        super().__init__()
        self.heads, self.activation = heads, activation
        self.query = nn.Linear(dim, dim, bias=False)
        self.keys_values = nn.Linear(dim, 2 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x_NLD: Tensor, context_RCD: Tensor, row_N: Tensor) -> Tensor:
        """Blocks [N, L, d], context [R, c, d], each block's row [N] -> [N, L, d]."""
        k, v = (split_heads(part, self.heads) for part in self.keys_values(context_RCD).chunk(2, -1))
        q = normalise(split_heads(self.query(normalise(x_NLD)), self.heads))
        scale = 1.0 / context_RCD.shape[1]
        mixed = gdpa(q, normalise(k)[row_N], v[row_N], activation=self.activation, outside=scale)
        result: Tensor = x_NLD + self.out(merge_heads(mixed))
        return result
