"""Distillation into an auxiliary head: the teacher's probabilities as soft labels, in the odds of the sample.

Source: ExFM, arXiv 2502.17494: loss = BCE(serving head, label) + weight x BCE(auxiliary head, teacher). Kept
negatives are a share w of all, so both logits are shifted by -log(w) as the labels' loss is: the teacher then
speaks on the scale on which the student learns, and raw logits stay those of the full log.
"""

import torch
from torch import Tensor
from torch.nn import functional

from models.gem.loss import sampling_offset


def distillation_loss(logits: Tensor, teacher: Tensor, taught: Tensor, keep_rate: Tensor) -> Tensor:
    """Sum over tasks of the mean soft cross-entropy where the teacher may teach; 0 where it may nowhere.

    Its minimum is at student = teacher; the teacher gets no gradient.

    Args:
        logits: auxiliary head's logits of the full log, float [B, T].
        teacher: teacher's logits of the full log, float [B, T].
        taught: 1 where the teacher may teach, float [B, T].
        keep_rate: w of each row, float [B].
    """
    offset = sampling_offset(keep_rate)[:, None]
    target = torch.where(taught > 0, teacher + offset, 0.0).sigmoid().detach()
    losses = functional.binary_cross_entropy_with_logits(logits + offset, target, reduction="none")
    count = taught.sum(0)
    return (torch.where(taught > 0, losses, 0.0).sum(0) / count.clamp(min=1)).sum()
