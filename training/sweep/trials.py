"""Trials of a sweep: what each arm cost, how it predicts the rows that judge all arms, and which one is picked.

Every arm is compared with no mixing on identical rows and on the same resamples of users, and the first arm with
itself: it loses nothing, with certainty. An arm is good enough when the upper end of what it loses lies within the
tolerance in every primary task that has the evidence: a mix of which little is known is not picked for being cheap.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log
from typing import TYPE_CHECKING

from training import evaluate
from training.bootstrap import Estimate
from training.evaluate import MetricRow
from training.judgement import DUE
from training.mixing import Mixing
from training.slices import ALL, SURFACE
from training.sweep.arms import Arm
from training.sweep.grid import SweepError, label
from training.sweep.legs import Leg

if TYPE_CHECKING:
    import pandas as pd

TOLERANCE = 0.002
"""Largest share of NE that a picked mix may lose."""


@dataclass(frozen=True)
class Rules:
    """What judges and picks.

    Attributes:
        n_min: positives below which a slice is insufficient.
        tolerance: largest share of NE that the pick may lose.
    """

    n_min: int
    tolerance: float = TOLERANCE


@dataclass(frozen=True)
class Trial:
    """An arm and its judgement.

    Attributes:
        mixing: what it trained on.
        digest: of its model.
        rows: trained on.
        steps: taken.
        seconds: of training and scoring.
        table: its metrics by task and slice.
        against: the arm against no mixing, on identical rows.
    """

    mixing: Mixing
    digest: str
    rows: int
    steps: int
    seconds: float
    table: list[MetricRow]
    against: list[MetricRow]

    def lost(self, task: str) -> Estimate | None:
        """NE over that of no mixing; None where there is too little evidence."""
        return overall(self.against, task).estimates.get("ne_ratio")

    def at_most_lost(self, task: str) -> float:
        """Upper end of the share of NE lost; infinite where it is not known."""
        found = self.lost(task)
        return inf if found is None or found.interval is None else found.interval.high - 1

    def score(self, tasks: Sequence[str]) -> float:
        """What settings are ranked by: NE over that of no mixing, averaged over tasks; infinite if undefined."""
        found = [self.lost(task) for task in tasks]
        numbers = [one.value.number for one in found if one is not None and one.value.number is not None]
        return sum(numbers) / len(numbers) if numbers and len(numbers) == len(found) else inf

    def worst_surface(self, task: str) -> tuple[str, float] | None:
        """The surface whose calibration is farthest from 1, by ratio, and that; None where no surface has any."""
        found = {}
        for row in self.table:
            calibration = row.estimates.get("calibration")
            if (row.task, row.by) == (task, SURFACE) and calibration is not None and calibration.value.number:
                found[str(row.value)] = calibration.value.number
        return max(found.items(), key=lambda item: abs(log(item[1]))) if found else None


@dataclass(frozen=True)
class Pick:
    """The cheapest mix that is good enough.

    Attributes:
        trial: None when there is no evidence to pick by.
        tasks: primary tasks that had a vote.
        silent: primary task -> why it had none.
    """

    trial: Trial | None
    tasks: tuple[str, ...]
    silent: dict[str, str]

    @property
    def name(self) -> str:
        """Of the mix, or that there is none."""
        return label(self.trial.mixing) if self.trial else "none"

    @property
    def reasons(self) -> str:
        """Why primary tasks had no vote, such as `click: insufficient (3)`."""
        return ", ".join(f"{task}: {why}" for task, why in self.silent.items()) or "no primary task"


@dataclass(frozen=True)
class Outcome:
    """A leg, judged.

    Attributes:
        leg: its days.
        trials: of all arms, no mixing first.
        pick: of them.
    """

    leg: Leg
    trials: list[Trial]
    pick: Pick

    def of(self, mixing: Mixing) -> Trial:
        """The trial of a mix that is among the arms."""
        return next(trial for trial in self.trials if trial.mixing == mixing)


def judged(arms: Sequence[Arm], pairs: "pd.DataFrame", n_min: int) -> list[Trial]:
    """Judge all arms on the pairs that they scored before training on them.

    Args:
        arms: no mixing first.
        pairs: as `training.judging.due_pairs` has them.
        n_min: positives below which a slice is insufficient.

    Raises:
        SweepError: no pair was scored.
        GemlineError: two arms did not score the same pairs.
    """
    rival, found = arms[0].served(pairs), []
    if rival.empty:
        raise SweepError(
            f"none of {len(pairs):,} labels of the judged days belongs to an impression that was scored before; "
            "sweep over more days, from an earlier --start"
        )
    for arm in arms:
        rows = arm.served(pairs)
        cost = int(arm.total("trained")), int(arm.total("steps")), float(arm.total("seconds"))
        table = evaluate.evaluate(rows, n_min, day=DUE)
        found.append(Trial(arm.mixing, arm.manifests[-1]["digest"], *cost, table, compared(rows, rival, n_min)))
    return found


def compared(rows: "pd.DataFrame", rival: "pd.DataFrame", n_min: int) -> list[MetricRow]:
    """What one arm served against what another did.

    Raises:
        GemlineError: they did not score the same pairs.
    """
    return evaluate.compare(evaluate.paired_rows(rows, rival), n_min, day=DUE)


def picked(trials: Sequence[Trial], tasks: Sequence[str], tolerance: float) -> Pick:
    """The cheapest mix, by rows and then by NE, whose loss is known to lie within the tolerance.

    Args:
        trials: no mixing first.
        tasks: primary tasks.
        tolerance: largest share of NE that may be lost.
    """
    silent = {task: status for task in tasks if (status := overall(trials[0].against, task).status) != "ok"}
    voting = tuple(task for task in tasks if task not in silent)
    if not voting:
        return Pick(None, voting, silent)
    good = [trial for trial in trials if all(trial.at_most_lost(task) <= tolerance for task in voting)]
    # no mixing loses nothing to itself; it stands even where its own interval is missing
    return Pick(min(good or trials[:1], key=lambda trial: (trial.rows, trial.score(voting))), voting, silent)


def overall(table: Sequence[MetricRow], task: str) -> MetricRow:
    """The row over all rows of a task; one without rows where there is none."""
    found = [row for row in table if (row.task, row.by) == (task, ALL)]
    return found[0] if found else evaluate.absent(task)
