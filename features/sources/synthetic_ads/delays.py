"""How long after a request an outcome comes, and how much of that a task's window holds.

Delays are counted from the request. An outcome comes no earlier than a second after the one before it in the funnel;
because each window is longer than that of the parent by more than a second, being inside the window is still just the
event that the drawn delay is, and its probability is the plain distribution function.
"""

import math
from typing import TYPE_CHECKING

from features.errors import WorldError
from features.sources.synthetic_ads.parameters import DAY_S

if TYPE_CHECKING:
    from features.worlds.schema import World

HOUR_S = 3_600.0
EXPONENTIAL = {"view": 2.0, "click": 40.0, "cart": 8 * HOUR_S, "purchase": 20 * HOUR_S}
"""Mean seconds."""
LOGNORMAL = {"offsite": (1.5 * DAY_S, 1.0), "install": (3 * HOUR_S, 1.5)}
"""Median seconds, and deviation of the logarithm."""
REPORT_S = 4 * HOUR_S
"""Mean delay of the report of an off-site conversion; at most the task's lag."""


def cumulative(task: str, seconds: float) -> float:
    """Probability that the delay is at most so long."""
    if task in EXPONENTIAL:
        return 1 - math.exp(-seconds / EXPONENTIAL[task])
    median, deviation = LOGNORMAL[task]
    return 0.5 * (1 + math.erf(math.log(seconds / median) / deviation / math.sqrt(2)))


def within_window(world: "World") -> dict[str, float]:
    """Task -> share of its outcomes that its window holds.

    Raises:
        WorldError: a task of the generator is missing, or its window ends no later than its parent's.
    """
    found = {task.name: task for task in world.tasks}
    if missing := sorted({*EXPONENTIAL, *LOGNORMAL} - set(found)):
        raise WorldError(f"world {world.name}: tasks {missing} of the generator are not in the file")
    shares = {}
    for name in (*EXPONENTIAL, *LOGNORMAL):
        task = found[name]
        parent = found[task.parent] if task.parent else None
        if task.window is None or (parent and parent.window and task.window <= parent.window):
            raise WorldError(f"world {world.name}: task {name} needs a window longer than that of its parent")
        shares[name] = cumulative(name, task.window.total_seconds())
    return shares
