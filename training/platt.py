"""Platt scaling: the logistic curve through weighted labels over the logits that were given before.

    p = 1 / (1 + exp(-(slope * logit + offset)))

A ridge pulls it towards the identity, so that few labels change little and separable ones nothing without bound. It
works about the mean logit, where slope and level hardly depend on one another. Source: Platt, "Probabilistic Outputs
for Support Vector Machines", 1999, with the ridge in place of its softened targets.
"""

import numpy as np
from scipy.special import expit

from training.areas import Floats

RIDGE = 1.0
"""Of the slope's distance from 1 and the level's from 0: a normal prior of deviation 1 on each."""
SLOPES = (0.2, 5.0)
"""A slope is kept within: never 0 or below, so that a ranking stays as it is."""
_STEPS, _HALVINGS, _CLOSE = 100, 40, 1e-10


def platt(logit: Floats, label: Floats, weight: Floats, ridge: float = RIDGE) -> tuple[float, float]:
    """Slope and offset of the likeliest curve, by Newton's method.

    Args:
        logit: finite, [n].
        label: zeros and ones, [n].
        weight: not negative, not all 0, [n].
        ridge: 0 for the likelihood alone, which then needs both classes, overlapping.
    """
    centre = float(np.average(logit, weights=weight))
    design = np.stack([np.ones_like(logit), logit - centre])
    level, change = _likeliest(logit, design, label, weight, ridge)
    slope = float(np.clip(1 + change, *SLOPES))
    if slope != 1 + change:
        # the loss is convex, so its least value within the bounds is on the bound that was passed
        (level,) = _likeliest(logit + (slope - 1) * design[1], design[:1], label, weight, ridge)
    return slope, float(level - (slope - 1) * centre)


def _likeliest(base: Floats, design: Floats, label: Floats, weight: Floats, ridge: float) -> Floats:
    """Changes [k] for which `base` + changes @ `design` [k, n] has the least weighted log-loss plus ridge."""
    changes = np.zeros(len(design))

    def loss(given: Floats) -> float:
        logit = base + given @ design
        return float(weight @ (np.logaddexp(0, logit) - label * logit) + ridge / 2 * given @ given)

    for _ in range(_STEPS):
        p = expit(base + changes @ design)
        gradient = design @ (weight * (p - label)) + ridge * changes
        curvature = (design * (weight * p * (1 - p))) @ design.T + ridge * np.eye(len(design))
        step, before = np.linalg.solve(curvature, gradient), loss(changes)
        for _ in range(_HALVINGS):
            # far from the answer a whole step may lead away from it
            if loss(changes - step) <= before:
                break
            step = step / 2
        changes = changes - step
        if np.abs(step).max() < _CLOSE:
            break
    return changes
