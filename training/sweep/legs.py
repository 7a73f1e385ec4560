"""Which days a sweep walks and judges: a small budget, from which a mix is picked, and later days that check the pick.

Predictions of a cold model's first days say little about a mix, so the small budget is judged on the later half of
its days. The check walks on from where the small budget ended, so it costs its own days only and judges models that
have learned from more: nothing of its days was seen when the mix was picked.
"""

from dataclasses import dataclass

from features.days import day_range, shift
from training.sweep.grid import SweepError


@dataclass(frozen=True)
class Leg:
    """A part of every arm's walk.

    Attributes:
        walk: label days that are scored and then trained on, in order.
        last: the day after them, which is scored only.
        judged_from: first day whose labels judge; the last one is `last`.
    """

    walk: tuple[str, ...]
    last: str
    judged_from: str


def small_leg(start: str, end: str) -> Leg:
    """The small budget: label days from `start` to `end`.

    Raises:
        SweepError: fewer than two days: one to learn from and one to judge on.
    """
    days = day_range(start, end)
    if len(days) < 2:
        raise SweepError(
            f"a sweep from {start} to {end} has {len(days)} label days; it needs at least 2, one to learn from and "
            "one to judge on, so let --end be after --start"
        )
    return Leg(tuple(days[:-1]), end, days[len(days) // 2])


def check_leg(end: str, days: int) -> Leg:
    """The days after a small budget that ended with `end`: its walk goes on with `end` itself.

    Raises:
        SweepError: no day.
    """
    if days < 1:
        raise SweepError(f"a check of {days} days checks nothing; give at least 1")
    last = shift(end, days)
    return Leg(tuple(day_range(end, shift(last, -1))), last, shift(end, 1))
