"""Generalised dot-product attention (GDPA), the per-example feed-forward network: act(Q K^T) V.

Keys and values made from an example's summary are the two weight matrices of a feed-forward network of its own; they
are never written out per event, and there is no softmax. With the identity for activation and keys that are the same
for all it is InterFormer's personalised map (`models.layers.interformer`). The scale stands outside the activation,
as in Meta's published kernels: inside, a division by a sequence length would leave only the activation's linear part.
Sources: Kunlun, arXiv 2602.10016 (summaries); facebookresearch/ads_model_kernel_library (activations, place of the
scale).
"""

from collections.abc import Callable
from math import pi, sqrt

from torch import Tensor, nn
from torch.nn import functional

from models.layers.attention import merge_heads, split_heads
from models.layers.norm import normalise


def fast_gelu(x: Tensor) -> Tensor:
    """GELU's tanh form by one sigmoid: x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3))."""
    return x * (2.0 * sqrt(2.0 / pi) * (x + 0.044715 * x**3)).sigmoid()


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "gelu_fast": fast_gelu,
    "relu": functional.relu,
    "relu_squared": lambda x: functional.relu(x).square(),
    "leaky_relu": functional.leaky_relu,
    "silu": functional.silu,
    "hardswish": functional.hardswish,
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
    scores = q @ k.transpose(-1, -2)
    weights = ACTIVATIONS[activation](scores if inside == 1.0 else inside * scores)
    # Values are fewer than scores and results, so the scale costs least there.
    return weights @ (v if outside == 1.0 else outside * v)


class GDPA(nn.Module):
    """Events ask the context tokens of their own request: S + GDPA(Norm(S), W1 C, W2 C), scaled by 1 / c.

    Args:
        dim: d.
        heads: heads.
        activation: a name in `ACTIVATIONS`.
        scale_inside: divide by c before the activation, as the paper's summaries print it, not after it.
    """

    def __init__(self, dim: int, heads: int, activation: str = "gelu", *, scale_inside: bool = False) -> None:
        super().__init__()
        self.heads, self.activation, self.scale_inside = heads, activation, scale_inside
        self.query = nn.Linear(dim, dim, bias=False)
        self.keys_values = nn.Linear(dim, 2 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x_NLD: Tensor, context_RCD: Tensor, row_N: Tensor) -> Tensor:
        """Blocks [N, L, d], context [R, c, d], each block's row [N] -> [N, L, d]."""
        k, v = (split_heads(part, self.heads) for part in self.keys_values(context_RCD).chunk(2, -1))
        q = normalise(split_heads(self.query(normalise(x_NLD)), self.heads))
        scale = 1.0 / context_RCD.shape[1]
        inside, outside = (scale, 1.0) if self.scale_inside else (1.0, scale)
        keys = normalise(k)[row_N]
        mixed = gdpa(q, keys, v[row_N], activation=self.activation, inside=inside, outside=outside)
        result: Tensor = x_NLD + self.out(merge_heads(mixed))
        return result
