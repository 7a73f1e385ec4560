"""From logits to calibrated logits: a straight line for each task and surface, fitted after the network was trained.

    logit of p(task | parent) -> slope * logit + offset

It stands between the heads and the funnel's product (`models.funnel`), so that each factor of the product is calibrated
by itself. What fits it is `training.recalibration`; trainer and service both apply it here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Lines(NamedTuple):
    """Slopes and offsets, float64 [S + 1, T] each; the last row is for surfaces that nobody named."""

    slope: Tensor
    offset: Tensor

    @classmethod
    def of(cls, told: Mapping[str, Any], surfaces: Sequence[str], tasks: Sequence[str]) -> "Lines":
        """From what a manifest says.

        Args:
            told: by task `pooled` and, by name, `surfaces`; each a `slope` and an `offset`.
            surfaces: in the order of the rows; one that a task does not know gets what is pooled.
            tasks: in the order of the columns.

        Raises:
            KeyError: a task is not there.
        """
        found = [
            [told[task]["surfaces"].get(surface, told[task]["pooled"]) for task in tasks] for surface in surfaces
        ] + [[told[task]["pooled"] for task in tasks]]
        slope, offset = ([[line[name] for line in row] for row in found] for name in cls._fields)
        return cls(torch.tensor(slope, dtype=torch.float64), torch.tensor(offset, dtype=torch.float64))

    def of_logits(self, logits: Tensor, surface: Tensor) -> Tensor:
        """Calibrated logits, float64 [B, T], of raw ones [B, T] on surfaces by index, int64 [B]."""
        return self.slope[surface] * logits.double() + self.offset[surface]
