"""Masked multi-task loss that is exact under negative sampling and adds up over ranks.

Primary task: kept negatives are a share w of all, so the odds in the sample are 1 / w times the odds of the
full log; -log(w) is added to the logit here and nowhere else, without weights. Other tasks: labels are
weighted by `weight` (1 for primary positives, 1 / w for other rows), which is unbiased without an offset.
Sums and denominators are returned apart: adding both over the parts of a split batch gives those of the
whole.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from models.interfaces import Inputs, Schema


@dataclass(frozen=True)
class TaskLosses:
    """Sums over the batch per task, float32 [T] each; `loss_sum / count` is a (weighted) mean log-loss.

    `count` sums the mask times the weight that the loss used (1 for primary tasks), so it carries no gradient
    and may be added over ranks, or replaced by a fixed constant.
    """

    loss_sum: Tensor
    count: Tensor

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.loss_sum, self.count))

    def means(self, count: Tensor | None = None) -> Tensor:
        """loss_sum / count of each task [T], 0 for a task without labels; `count` may be the sum over ranks."""
        count = self.count if count is None else count
        return self.loss_sum / torch.where(count > 0, count, 1.0)

    def total(self, count: Tensor | None = None) -> Tensor:
        """Sum over tasks of their `means`."""
        return self.means(count).sum()


def sampling_offset(keep_rate: Tensor) -> Tensor:
    """-log(w): what sampling adds to the primary logit, [B]."""
    return -torch.log(keep_rate)


def gem_loss(logits: Tensor, batch: Inputs, schema: Schema, scales: Mapping[str, float] | None = None) -> TaskLosses:
    """Binary cross-entropy of every task where its mask is set.

    Args:
        logits: raw logits of the full log, float [B, T].
        batch: gives label, mask, weight [B, T] and keep_rate [B].
        schema: gives tasks in column order and which are primary.
        scales: fixed factor per task name, 1 where left out; never computed from a batch, which breaks rare
            tasks.

    Returns:
        sums and denominators per task. Masked pairs contribute exactly zero to both and to the gradient.
    """
    primary = torch.tensor([task.primary for task in schema.tasks], device=logits.device)
    factors = [(scales or {}).get(task.name, 1.0) for task in schema.tasks]
    due = batch.mask > 0
    weight = torch.where(due, torch.where(primary, torch.ones_like(batch.weight), batch.weight), 0.0)
    label = torch.where(due, batch.label, 0.0)
    shifted = logits + torch.where(primary, sampling_offset(batch.keep_rate)[:, None], 0.0)
    losses = functional.binary_cross_entropy_with_logits(shifted, label, reduction="none")
    losses = torch.where(due, losses * weight, 0.0)
    return TaskLosses(losses.sum(0) * logits.new_tensor(factors), weight.sum(0))
