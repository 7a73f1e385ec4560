"""Which task a task follows on a surface: the one rule that labels, models and the service share."""

from collections.abc import Iterable
from typing import Protocol


class FunnelTask(Protocol):
    """A step of a funnel; `surfaces` empty means everywhere."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def parent(self) -> str | None: ...  # noqa: D102
    @property
    def surfaces(self) -> tuple[str, ...]: ...  # noqa: D102


def parent_on(tasks: Iterable[FunnelTask], task: str, surface: str) -> str | None:
    """The nearest ancestor of a task that exists on a surface: its label has to be 1 for the task to exist.

    None where no ancestor does: there the task is direct, with a label for every impression. Ancestors form no ring
    (`require_no_ring`).
    """
    known = {entry.name: entry for entry in tasks}
    ancestor = known[task].parent
    while ancestor is not None and known[ancestor].surfaces and surface not in known[ancestor].surfaces:
        ancestor = known[ancestor].parent
    return ancestor


def require_no_ring(tasks: Iterable[FunnelTask]) -> None:
    """Refuse tasks that are their own ancestors; parents must be known.

    Raises:
        ValueError: naming the ring.
    """
    known = {entry.name: entry for entry in tasks}
    for name in known:
        seen, ancestor = [name], known[name].parent
        while ancestor is not None and ancestor not in seen:
            seen.append(ancestor)
            ancestor = known[ancestor].parent
        if ancestor is not None:
            raise ValueError(f"task {name}: its parents form a ring ({' -> '.join([*seen, ancestor])})")
