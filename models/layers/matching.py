"""Same-id matching: what a user did with the very product, brand or category that is shown now.

For each history field that shares an id space with the candidate: decayed sums, rates and recencies over the
events that match. On the default data this matters more than attention. Finding matches is integer work over
(example, event) pairs; only the few pairs that match reach floating point and the gradient. This is the only
place where history meets the candidate.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.layers.decay import DecayedSums


def pairs(lengths: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
    """All (example, event) pairs of examples with the histories that they see.

    Args:
        lengths: int64 [R].
        row: int64 [B], the history of each example.

    Returns:
        example and event indices, int64 [P] each, P = sum of the examples' lengths.
    """
    counts = lengths[row]
    ends = torch.cumsum(counts, 0)
    starts = (torch.cumsum(lengths, 0) - lengths)[row]
    example = torch.repeat_interleave(torch.arange(len(row), device=row.device), counts)
    event = torch.arange(len(example), device=row.device) + (starts - (ends - counts))[example]
    return example, event


class Matching(nn.Module):
    """Features of the matching events, field after field: [B, F (3 K + 5)].

    Args:
        fields: names, in the order of the output.
        taus: starting decay times in days.
        types: event types, the unknown one included.
    """

    def __init__(self, fields: Sequence[str], taus: tuple[float, ...], types: int) -> None:
        super().__init__()
        self.sums = nn.ModuleDict({field: DecayedSums(taus, types) for field in fields})
        self.width = sum(module.width for module in self.sums.values())  # type: ignore[misc]

    def forward(
        self,
        candidate: dict[str, Tensor],
        history: dict[str, Tensor],
        row: Tensor,
        lengths: Tensor,
        age_days: Tensor,
        types: Tensor,
        span_days: Tensor,
    ) -> Tensor:
        """Compare by key.

        Args:
            candidate: field -> table rows of the example's own id, int64 [B]; row 0 (missing) matches
                nothing.
            history: field -> table rows, int64 [T].
            row: int64 [B].
            lengths: int64 [R].
            age_days: float [T].
            types: int64 [T].
            span_days: float [R].
        """
        example, event = pairs(lengths, row)
        span = span_days[row]
        parts = []
        for field, sums in self.sums.items():
            wanted = candidate[field][example]
            match = torch.nonzero((history[field][event] == wanted) & (wanted != 0)).squeeze(1)
            when = event[match]
            parts.append(sums(example[match], age_days[when], types[when], span))
        return torch.cat(parts, dim=1) if parts else age_days.new_zeros(len(row), 0)
