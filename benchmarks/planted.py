"""What benchmarks on planted signals share: training on fresh examples, ranking quality, intervals of paired seeds.

A planted world is a function `sample(generator, rows) -> (inputs, labels)`. Every step sees fresh rows, so nothing can
be learned by heart, and two arms of the same seed see the same rows.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn
from torch.nn import functional

from training import metrics

Sample = Callable[[torch.Generator, int], tuple[tuple[Tensor, ...], Tensor]]
"""Generator and rows -> the model's inputs and 0/1 labels [rows]."""


def fit(model: nn.Module, sample: Sample, *, steps: int, rows: int, rate: float, seed: int) -> list[float]:
    """Train with Adam and a linearly falling rate.

    Args:
        model: inputs -> logits [rows].
        sample: the world.
        steps: optimizer steps.
        rows: fresh examples a step.
        rate: learning rate at the start.
        seed: of the examples.

    Returns:
        The loss of every step.
    """
    generator = torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam(model.parameters(), lr=rate)
    falling = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.05, steps)
    losses = []
    for _ in range(steps):
        inputs, label = sample(generator, rows)
        loss = functional.binary_cross_entropy_with_logits(model(*inputs), label)
        adam.zero_grad()
        loss.backward()
        adam.step()
        falling.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def judge(model: nn.Module, sample: Sample, *, rows: int, seed: int, batch: int = 256) -> tuple[float, float]:
    """Area under the ROC curve and log-loss on fresh rows; of equal seeds, on the same ones."""
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for start in range(0, rows, batch):
        inputs, label = sample(generator, min(batch, rows - start))
        parts.append((model(*inputs), label))
    logit, label = (torch.cat(part) for part in zip(*parts, strict=True))
    loss = functional.binary_cross_entropy_with_logits(logit, label).item()
    # AUC asks for the order alone, and float64 keeps the order of logits that float32 would saturate
    found = metrics.auc(metrics.Sample.of(label.numpy(), logit.double().sigmoid().numpy()))
    if found.number is None:
        raise ValueError(f"no AUC: {found.reason}")
    return found.number, loss


def paired_interval(differences: Sequence[float], confidence: float = 0.95) -> tuple[float, tuple[float, float]]:
    """Mean of one difference a seed, and its Student interval.

    Raises:
        ValueError: with fewer than two seeds there is no interval.
    """
    if len(differences) < 2:
        raise ValueError("an interval needs at least two paired seeds")
    mean, error = float(np.mean(differences)), float(stats.sem(differences))
    reach = float(stats.t.ppf(0.5 + confidence / 2, len(differences) - 1)) * error
    return mean, (mean - reach, mean + reach)
