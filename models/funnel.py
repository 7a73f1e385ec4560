"""From what a model is trained on to what decides: p(task) is the product along its ancestors.

A post-click task has a label only where its parent's is 1, so its logit is that of p(task | parent), and the sum of the
tasks' log-losses is minus the exact log-likelihood of the whole path. A ranking asks for p(task) of an impression:

    p(purchase) = p(click) p(cart | click) p(purchase | cart)

which is never above p(click). Source: Ma et al., "Entire Space Multi-Task Model", SIGIR 2018; there the product is
trained, here its factors are, which is the same likelihood with every factor calibrated by itself. Which ancestors
there are depends on the surface: where none exists the task is direct and its logit already is the answer.
"""

import torch
from torch import Tensor

from models.interfaces import Schema

NONE = -1
"""In a table of parents: the task is direct."""


def parents(schema: Schema) -> Tensor:
    """Index of each task's parent on each surface, `NONE` where it has none: int64 [S, T]."""
    places = {task.name: index for index, task in enumerate(schema.tasks)}
    found = [
        [NONE if (name := schema.parent_on(task, surface)) is None else places[name] for task in places]
        for surface in schema.surfaces
    ]
    return torch.tensor(found, dtype=torch.int64).reshape(len(schema.surfaces), len(places))


def unconditional(conditional: Tensor, surface: Tensor, parents: Tensor) -> Tensor:
    """Probabilities of the impression itself.

    Args:
        conditional: p(task | parent), [B, T]; of a task without a parent on the row's surface, p(task).
        surface: index of each row, int64 [B].
        parents: see the function of that name.

    Returns:
        p(task), [B, T]: at most p(parent) in every row, exactly so in floating point, since each factor is at most 1,
        rounding is monotone, and a task is multiplied by its ancestors in the order in which its parent is. What is not
        finite makes its descendants not finite.
    """
    above = parents[surface]
    found, ancestor = conditional.clone(), above
    while (ancestor != NONE).any():
        known = ancestor != NONE
        place = ancestor.clamp(min=0)
        found = torch.where(known, found * conditional.gather(1, place), found)
        ancestor = torch.where(known, above.gather(1, place), NONE)
    return found
