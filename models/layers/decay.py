"""Decayed sums of events: how much, how often, how recently, and none of it growing with the log.

sum_k = sum over events of w_type,k exp(-age / tau_k) with learned taus. A plain sum grows as a user's history
grows, and was seen to ruin calibration; divided by tau (1 - exp(-span / tau)), the sum of one event a day
over the observed span, it is a rate.
"""

import math

import torch
from torch import Tensor, nn

SHORTEST_TAU, LONGEST_TAU = 0.05, 1500.0
MINIMUM_SPAN = 1.0
"""Days; a shorter observed span counts as this, so a single fresh event is no rate of thousands a day."""
RATE_UNIT = 1e-3
"""Events a day that count as hardly any: rates enter as log(1 + rate / RATE_UNIT)."""
EXTRA = 5


class DecayedSums(nn.Module):
    """Features of the events of each owner.

    Args:
        taus: K starting decay times in days.
        types: event types, the unknown one included; each has a learned weight per tau, 1 at the start.
    """

    def __init__(self, taus: tuple[float, ...], types: int) -> None:
        super().__init__()
        self.log_tau = nn.Parameter(torch.tensor([math.log(tau) for tau in taus]))
        self.log_weight = nn.Parameter(torch.zeros(types, len(taus)))
        self.width = 3 * len(taus) + EXTRA

    def taus(self) -> Tensor:
        """The decay times in days, [K]."""
        return self.log_tau.clamp(math.log(SHORTEST_TAU), math.log(LONGEST_TAU)).exp()

    def forward(self, owner: Tensor, age_days: Tensor, types: Tensor, span_days: Tensor) -> Tensor:
        """Features [O, 3 K + 5] of O owners.

        Args:
            owner: int64 [M], whose event it is.
            age_days: float [M].
            types: int64 [M].
            span_days: float [O], observed span of each owner.

        Returns:
            log1p of the sums (K), log rates (K), exp(-age of the last / tau) (K), then five numbers: any,
            log1p(count), log1p(age of the last), log1p(mean interval), age of the last in mean intervals
            (log1p).
        """
        taus = self.taus()
        decayed = torch.exp(-age_days[:, None] / taus) * self.log_weight.exp()[types]
        sums = decayed.new_zeros(len(span_days), len(taus)).index_add(0, owner, decayed)
        span = span_days.clamp(min=MINIMUM_SPAN)[:, None]
        rates = sums / (taus * -torch.expm1(-span / taus))
        count, last, first = _count_and_ages(owner, age_days, len(span_days))
        any_ = (count > 0).to(sums.dtype)
        recency = torch.exp(-last[:, None] / taus) * any_[:, None]
        interval = (first - last) / (count - 1).clamp(min=1)
        repeated = (count > 1).to(sums.dtype)
        due = torch.log1p(last / (interval + MINIMUM_SPAN)) * repeated
        extra = [any_, torch.log1p(count), torch.log1p(last), torch.log1p(interval) * repeated, due]
        rates = torch.log1p(rates / RATE_UNIT)
        return torch.cat([torch.log1p(sums), rates, recency, torch.stack(extra, 1)], dim=1)


def _count_and_ages(owner: Tensor, age_days: Tensor, owners: int) -> tuple[Tensor, Tensor, Tensor]:
    """Count, age of the last and age of the first event of each owner; ages are 0 where there is none."""
    zeros = age_days.new_zeros(owners)
    count = zeros.index_add(0, owner, torch.ones_like(age_days))
    last = zeros.scatter_reduce(0, owner, age_days, "amin", include_self=False)
    first = zeros.scatter_reduce(0, owner, age_days, "amax", include_self=False)
    return count, last, first
