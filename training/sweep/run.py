"""A whole sweep: walk the small budget with every mix, pick, walk on over later days, and check the pick there."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from training.compute import Compute
from training.evaluate import MetricRow
from training.mixing import Mixing
from training.plan import Plan
from training.sweep.agreement import agreement
from training.sweep.arms import Arm, walked
from training.sweep.legs import Leg
from training.sweep.result import Sweep
from training.sweep.trials import Outcome, Rules, Trial, compared, judged, picked
from training.walk import Say

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Stage:
    """What one leg of the walk needs.

    Attributes:
        leg: its days.
        plan: of no mixing, from a cold start; mix, parent and output are made each arm's own.
        pairs: labels that judge it, as `training.judging.due_pairs` has them.
    """

    leg: Leg
    plan: Plan
    pairs: "pd.DataFrame"


def sweep(
    small: Stage, later: Stage | None, mixes: Sequence[Mixing], rules: Rules, folder: Path, compute: Compute, say: Say
) -> Sweep:
    """Walk and judge every mix.

    Args:
        small: the small budget.
        later: days that check the pick, walked on from the small budget's models.
        mixes: no mixing first, see `training.sweep.grid.grid`.
        rules: what judges and picks.
        folder: of the arms' checkpoints.
        compute: this process's place.
        say: told about progress, in lines.

    Raises:
        MixingError: a mix names a surface or task that the world does not have.
        SweepError: no judged pair was scored.
        GemlineError: as `training.run.train`.
    """
    for mix in mixes:
        mix.require_fits(small.plan.schema)
    arms = walked(small.plan, [Arm(mix) for mix in mixes], folder, compute, say)
    first = _outcome(small, arms, rules)
    if later is None:
        return Sweep(small.plan, rules, first)
    arms = walked(later.plan, arms, folder, compute, say)
    second = _outcome(later, arms, rules)
    by_digest = {arm.manifests[-1]["digest"]: arm for arm in arms}

    def against(one: Trial, other: Trial) -> list[MetricRow]:
        rows, rival = (by_digest[trial.digest].served(later.pairs) for trial in (one, other))
        return compared(rows, rival, rules.n_min)

    return Sweep(small.plan, rules, first, second, agreement(first, second, against))


def _outcome(stage: Stage, arms: Sequence[Arm], rules: Rules) -> Outcome:
    trials = judged(arms, stage.pairs, rules.n_min)
    return Outcome(stage.leg, trials, picked(trials, stage.plan.schema.judged_tasks, rules.tolerance))
