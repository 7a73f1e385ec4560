"""Several attribution windows of one conversion: each is a head of its own with its own labels and due days.

The longest window is what the task's name means, what is served and what decides; a shorter one is known sooner, so its
head teaches the shared trunk about recent days before the long labels are there. Source: the "Zipper" of Meta Lattice
(arXiv 2512.09200), which assigns each impression to one window by hash; here every impression has all of them.
"""

from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from features.worlds.schema import Task

UNITS = ((timedelta(days=1), "d"), (timedelta(hours=1), "h"), (timedelta(minutes=1), "m"), (timedelta(seconds=1), "s"))


def head_name(task: str, window: timedelta) -> str:
    """Name of a shorter window's head: `sale_within_1d`, in the largest unit that divides the window."""
    unit, letter = next((unit, letter) for unit, letter in UNITS if not window % unit)
    return f"{task}_within_{window // unit}{letter}"


def heads_of(task: "Task") -> "tuple[Task, ...]":
    """The task itself, then its shorter windows from the shortest on; these never decide about a release."""
    shorter = [
        task.model_copy(
            update={"name": head_name(task.name, window), "window": window, "shorter": (), "primary": False}
        )
        for window in task.shorter
    ]
    return (task, *shorter)


def require_windows(task: "Task") -> None:
    """Refuse shorter windows that are none.

    Raises:
        ValueError: they do not increase up to `window`, or are no whole seconds, or the task has no constant window.
    """
    if not task.shorter:
        return
    if task.window is None:
        raise ValueError(f"task {task.name}: `shorter` windows need a `window`; each impression has its own here")
    ends = (*task.shorter, task.window)
    if ends[0] <= timedelta(0) or any(later <= sooner for sooner, later in pairwise(ends)):
        raise ValueError(f"task {task.name}: list `shorter` windows from the shortest on, all of them below `window`")
    if any(end % timedelta(seconds=1) for end in task.shorter):
        raise ValueError(f"task {task.name}: `shorter` windows are whole seconds, their names say so")


def require_names(tasks: "Iterable[Task]") -> None:
    """Refuse heads of one name.

    Raises:
        ValueError: naming it.
    """
    names = [head.name for task in tasks for head in heads_of(task)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"tasks: {twice} named more than once, shorter windows included; rename one of each")
