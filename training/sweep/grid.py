"""The mixes of a sweep: a small grid of exponents and budgets, all rows first, and each mix once."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import yaml

from features.errors import GemlineError
from training.mixing import Mixing

TAUS = (1.0, 0.5, 0.0)
BUDGETS = (1.0, 0.5, 0.25)


class SweepError(GemlineError):
    """A sweep cannot be had: a grid without a mix, days that do not fit, or rows that nobody predicted."""


def grid(
    surfaces: Sequence[str],
    taus: Sequence[float] = TAUS,
    budgets: Sequence[float] = BUDGETS,
    own: Mapping[str, float] | None = None,
    tasks: Mapping[str, float] | None = None,
) -> tuple[Mixing, ...]:
    """Every pair of exponent and budget, after no mixing at all, which all are compared with.

    Args:
        surfaces: of the world.
        taus: exponents.
        budgets: shares of the rows.
        own: exponents of single surfaces, in every mix.
        tasks: shares of single tasks, in every mix.

    Raises:
        SweepError: nothing but all rows is left.
        MixingError: a value is out of its range.
    """
    found = [Mixing()]
    for budget in budgets:
        for tau in taus:
            mix = _plain(Mixing(tau=tau, taus=dict(own or {}), budget=budget, tasks=dict(tasks or {})), surfaces)
            if mix not in found:
                found.append(mix)
    if len(found) == 1:
        raise SweepError(
            f"budgets {[*budgets]} and task shares {dict(tasks or {})} train on all rows, so there is nothing to "
            "compare; give a budget or a task share below 1"
        )
    return tuple(found)


def _plain(mix: Mixing, surfaces: Sequence[str]) -> Mixing:
    """The mix without what changes nothing: exponents where every surface is kept whole, or where there is only one."""
    mix = replace(mix, tasks={task: share for task, share in mix.tasks.items() if share < 1})
    return replace(mix, tau=1.0, taus={}) if mix.budget == 1 or len(surfaces) == 1 else mix


def label(mix: Mixing) -> str:
    """A mix in few words, such as `tau 0.5, budget 0.25`."""
    if mix.whole:
        return "all rows"
    parts = [f"tau {mix.tau:g}", f"budget {mix.budget:g}"]
    parts += [f"{surface} tau {tau:g}" for surface, tau in mix.taus.items()]
    return ", ".join([*parts, *(f"{task} share {share:g}" for task, share in mix.tasks.items())])


def snippet(mix: Mixing) -> str:
    """A line of YAML for the `overrides` of a recipe; it names all four settings, so nothing of the recipe's stays."""
    held = yaml.safe_dump(asdict(mix), default_flow_style=True, sort_keys=False, width=10_000)
    return f"mixing: {held.strip()}"
