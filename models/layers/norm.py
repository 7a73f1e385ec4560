"""Normalisation without learned scale or shift.

In Kunlun's reports the affine part had marginal effect and cost time.
"""

from torch import Tensor, nn
from torch.nn import functional

EPSILON = 1e-5


def normalise(x: Tensor) -> Tensor:
    """Zero mean and unit variance over the last axis."""
    return functional.layer_norm(x, x.shape[-1:], eps=EPSILON)


class Norm(nn.Module):
    """`normalise` as a module, for use in a sequence of modules."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        return normalise(x)
