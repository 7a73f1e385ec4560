"""Self-attention inside blocks.

Cost linear in the events, both directions, pre-norm with normalised queries and keys.
"""

from torch import Tensor, nn
from torch.nn import functional

from models.layers.norm import normalise


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[..., L, d] -> [..., heads, L, d / heads]."""
    return x.unflatten(-1, (heads, -1)).transpose(-3, -2)


def merge_heads(x: Tensor) -> Tensor:
    """[..., heads, L, d / heads] -> [..., L, d], the inverse of `split_heads`."""
    return x.transpose(-3, -2).flatten(-2)


class BlockSelfAttention(nn.Module):
    """Adds to every token what it attends to within its block; changing a block changes only that block.

    Args:
        dim: d.
        heads: attention heads.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x_NLD: Tensor, mask_NL: Tensor) -> Tensor:
        """[N, L, d] and where tokens are (bool [N, L]) -> [N, L, d].

        What stands in empty slots is meaningless.
        """
        if not len(x_NLD):
            return x_NLD
        q, k, v = (split_heads(part, self.heads) for part in self.project(normalise(x_NLD)).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(
            normalise(q), normalise(k), v, attn_mask=mask_NL[:, None, None, :]
        )
        result: Tensor = x_NLD + self.out(merge_heads(mixed))
        return result
