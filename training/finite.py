"""A run stops at the first number that is not finite; what it leaves is an attempt that nothing loads."""

import torch
from torch import Tensor

from features.errors import GemlineError


class NonFinite(GemlineError):
    """A loss, a gradient or a weight is not finite; the run stops and commits nothing."""


def require_finite(tensors: dict[str, Tensor]) -> None:
    """Refuse to publish weights or optimizer state that are not finite.

    Raises:
        NonFinite: naming the tensor.
    """
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise NonFinite(f"after training, {name} holds values that are not finite; {mend()}")


def mend() -> str:
    """What a user can do about it."""
    return "nothing is committed; look for extreme inputs in that day, or lower dense_lr and table_lr"
