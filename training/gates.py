"""Watch the gates over domain experts while a model trains: a gate that always picks one expert has collapsed.

Per surface, over the rows trained on since the last report: each expert's mean weight, shared experts first, the
largest of them, and the mean entropy of a row's weights in nats. Source of the fear: gates of multi-task mixtures
without a temperature end with a largest weight of .98.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from models.layers.domain_experts import DomainExperts
from training.compute import Compute, summed

COLLAPSED = 0.98
"""A largest mean weight above it is reported as a collapse."""

Gates = Mapping[str, Mapping[str, Any]]
"""By surface: `rows`, `mean` by expert, `max`, `entropy`."""


class GateMonitor:
    """Sums over the rows of this process, by surface."""

    def __init__(self, experts: DomainExperts | None, surfaces: Sequence[str], compute: Compute) -> None:
        """Watch a model's experts, if it has some."""
        self.surfaces, self.compute = surfaces, compute
        self.count = experts.gate.shape[1] if experts is not None else 0
        self._sums = self._none()
        if experts is not None:
            experts.watch = self.add

    def _none(self) -> Tensor:
        """Rows, sum of entropies, and sums of weights: [S, 2 + experts]."""
        return torch.zeros(len(self.surfaces), 2 + self.count, dtype=torch.float64, device=self.compute.device)

    def add(self, weights: Tensor, surface: Tensor) -> None:
        """Count gates [B, experts] of rows of these surfaces [B]."""
        entropy = -torch.special.xlogy(weights, weights).sum(1, keepdim=True)
        self._sums.index_add_(0, surface, torch.cat([torch.ones_like(entropy), entropy, weights], dim=1).double())

    def report(self) -> dict[str, dict[str, Any]]:
        """What was seen since the last report, on every process; surfaces without rows are left out."""
        sums, self._sums = summed(self._sums, self.compute).cpu(), self._none()
        found = {}
        for name, (rows, entropy, *weights) in zip(self.surfaces, sums.tolist(), strict=True):
            if rows and weights:
                mean = [round(weight / rows, 4) for weight in weights]
                found[name] = {"rows": int(rows), "mean": mean, "max": max(mean), "entropy": round(entropy / rows, 4)}
        return found


def collapsed(gates: Gates) -> str:
    """A line that names the surfaces whose gates use one of several experts alone; empty when there are none."""
    names = [name for name, gate in gates.items() if len(gate["mean"]) > 1 and gate["max"] > COLLAPSED]
    if not names:
        return ""
    return (
        f"warning: the gates of {', '.join(names)} give one domain expert more than {COLLAPSED:.0%} of the weight; "
        "raise model.expert_temperature"
    )
