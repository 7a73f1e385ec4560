"""What stands between tokens and heads: one interface, several architectures.

A backbone sees a request's shared tokens and histories once, whatever the number of its candidates, and each
candidate's own tokens. Nothing of a candidate reaches what belongs to the request: that is what lets it be computed
once in training (rows are grouped by request) and in scoring.
"""

from typing import NamedTuple, Protocol

from torch import Tensor

from models.layers.blocks import BlockLayout
from models.layers.rotary import Rotation


class Events(NamedTuple):
    """R histories of one tower in packed blocks.

    Attributes:
        x_NLD: tokens [N, L, d].
        layout: where they stand.
        rotation: rotary angles of their times and places; None turns nothing.
    """

    x_NLD: Tensor
    layout: BlockLayout
    rotation: Rotation | None = None


class Sizes(NamedTuple):
    """How many tokens a backbone is given: a candidate's own, a request's shared; and how many towers."""

    own: int
    shared: int
    towers: int = 1


class Backbone(Protocol):
    """An architecture.

    `out_tokens` is the number of tokens that it makes of every example.
    """

    @property
    def out_tokens(self) -> int: ...  # noqa: D102

    def __call__(self, own_BND: Tensor, shared_RMD: Tensor, towers: list[Events], row_B: Tensor) -> Tensor:
        """[B, n, d], [R, m, d], histories, and each example's request [B] -> [B, out_tokens, d]."""
