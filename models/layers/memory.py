"""Reading a memory: attention of a candidate over remembered vectors of earlier impressions, jagged, no padding.

DIN-style: the candidate asks, softmax over the memory answers; beside it the plain mean, which was strong in the
LoopFM paper, and how much there is to remember.
"""

import torch
from torch import Tensor, nn

from models.layers.matching import pairs

DAY_SECONDS = 86_400.0
EXTRA = 2


class MemoryReader(nn.Module):
    """Summary of what each example's user is remembered by: [B, 2 d + 2].

    Args:
        query: width of what the candidate asks with.
        width: d of a remembered vector.
    """

    def __init__(self, query: int, width: int) -> None:
        super().__init__()
        self.ask = nn.Linear(query, width)
        self.decay = nn.Parameter(torch.zeros(()))
        self.width = 2 * width + EXTRA

    def forward(self, query: Tensor, lengths: Tensor, memory: Tensor, age: Tensor, row: Tensor) -> Tensor:
        """Read.

        Args:
            query: float [B, q].
            lengths: int64 [R].
            memory: float [M, d].
            age: float [M], seconds.
            row: int64 [B], the memory of each example.

        Returns:
            Attended vector, mean vector, log1p of the count and whether there is any; zeros without a memory.
        """
        example, vector = pairs(lengths, row)
        asked = self.ask(query)
        days = torch.log1p(age / DAY_SECONDS)
        scores = (asked[example] * memory[vector]).sum(1) * memory.shape[1] ** -0.5 - self.decay * days[vector]
        # the same shift for all of a row leaves its softmax as it is and keeps exp finite
        top = scores.new_zeros(len(row)).scatter_reduce(0, example, scores.detach(), "amax", include_self=False)
        weight = (scores - top[example]).exp()
        mass = weight.new_zeros(len(row)).index_add(0, example, weight)
        share = weight / mass[example]
        attended = memory.new_zeros(len(row), memory.shape[1]).index_add(0, example, share[:, None] * memory[vector])
        count = lengths[row].to(memory.dtype)
        owner = torch.repeat_interleave(torch.arange(len(lengths), device=row.device), lengths)
        total = memory.new_zeros(len(lengths), memory.shape[1]).index_add(0, owner, memory)
        mean = total[row] / count.clamp(min=1)[:, None]
        return torch.cat([attended, mean, torch.log1p(count)[:, None], (count > 0).to(memory.dtype)[:, None]], dim=1)
