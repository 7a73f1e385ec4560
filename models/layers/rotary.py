"""Temporal rotary encoding: queries and keys turn by the age of an event and by its place in the history.

Half of the frequency pairs turn by log(1 + age / scale), half by the index from the newest event, so a score depends
on two differences: a ratio of ages and a number of events in between. The first published use (ROTE in Kunlun, arXiv
2602.10016, summaries) leaves the coordinate open; an absolute one is chosen, as rotary encoding asks for (RoFormer,
arXiv 2104.09864). Nothing here is learned.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

AGE_SPAN = 16.0
"""Wavelengths of age, in units of log(1 + age / scale), go from 1 to this: from one e-fold to more than any history."""


class Rotation(NamedTuple):
    """How far each pair of channels of each token turns.

    Attributes:
        cos: [N, L, dh / 2].
        sin: [N, L, dh / 2].
    """

    cos: Tensor
    sin: Tensor


class TemporalRotary(nn.Module):
    """Ages and places of tokens -> their rotation.

    Args:
        head_dim: dh, a multiple of 4.
        time_scale_days: age below which differences count absolutely, above which by their ratio.
        base: of the index frequencies: wavelengths go from 2 pi to 2 pi x base events.
    """

    def __init__(self, head_dim: int, *, time_scale_days: float = 1.0, base: float = 10_000.0) -> None:
        super().__init__()
        if head_dim % 4:
            raise ValueError(f"head_dim {head_dim} is not a multiple of 4: age and index share its pairs evenly")
        self.time_scale_days = time_scale_days
        steps = torch.arange(head_dim // 4) / (head_dim // 4)
        self.age_frequency: Tensor
        self.index_frequency: Tensor
        self.register_buffer("age_frequency", 2 * math.pi * AGE_SPAN**-steps, persistent=False)
        self.register_buffer("index_frequency", base**-steps, persistent=False)

    def forward(self, age_days_NL: Tensor, index_NL: Tensor) -> Rotation:
        """Ages in days and places counted from the newest event (both [N, L]) -> Rotation."""
        age = torch.log1p(age_days_NL.clamp(min=0.0) / self.time_scale_days)
        angle = torch.cat([age[..., None] * self.age_frequency, index_NL[..., None] * self.index_frequency], dim=-1)
        return Rotation(angle.cos(), angle.sin())


def rotate(x_NHLD: Tensor, rotation: Rotation | None) -> Tensor:
    """Turn the pairs (i, i + dh / 2) of [N, heads, L, dh]; unchanged without a rotation."""
    if rotation is None:
        return x_NHLD
    cos, sin = (part[:, None].to(x_NHLD.dtype) for part in rotation)
    first, second = x_NHLD.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)
