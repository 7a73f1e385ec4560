"""Weights of tasks in the loss: fixed before training and for a model's whole chain, never computed from a batch.

Mean log-losses of a rare and of a common task differ by an order of magnitude. Divided by the entropy of its base rate,
each becomes a normalized entropy, about 1 at the start, so no task is loud only because it is common. The base rate is
the one that the task's bias starts at. A batch's own value would not do: many batches hold no conversion at all, and a
division by next to nothing makes such a task's head collapse.
"""

import math
from collections.abc import Mapping, Sequence

from training.recipes import RecipeError

ENTROPY_FLOOR = 0.01
"""In nats, that of one positive in about 700: a task rarer than this gets no further weight."""
UNKNOWN_RATE = 0.5
"""Of a task that has not met both classes yet: the least weight."""


def entropy(rate: float) -> float:
    """Nats of a yes or no of this rate, in (0, 1)."""
    return -rate * math.log(rate) - (1 - rate) * math.log1p(-rate)


def task_factors(
    weights: str | Mapping[str, float], rates: Mapping[str, float], tasks: Sequence[str]
) -> dict[str, float]:
    """Factor of each task's mean log-loss.

    Args:
        weights: `equal`, `entropy`, or factors by task, 1 where left out (`Recipe.task_weights`).
        rates: base rate that each task started at; tasks that did not start yet are left out.
        tasks: of the model.

    Raises:
        RecipeError: a factor of a task that the model does not have.
    """
    if weights == "entropy":
        return {task: 1 / max(entropy(rates.get(task, UNKNOWN_RATE)), ENTROPY_FLOOR) for task in tasks}
    given = {} if isinstance(weights, str) else dict(weights)
    if unknown := sorted(set(given) - set(tasks)):
        raise RecipeError(f"task_weights names {unknown}, which are no tasks of the model; known: {sorted(tasks)}")
    return {task: given.get(task, 1.0) for task in tasks}
