"""How a pick of a small budget generalises: the same arms on later days, after more training, that picked nothing.

Three questions: does the larger budget rank the mixes alike (Spearman), would it pick the same, and how much NE does
the small budget's pick lose there - against no mixing, and against the mix that is then the best. The best of several
is lucky by nature, so the last is an upper guess. What cannot be answered says why.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any

import numpy as np
from scipy.stats import rankdata

from training.bootstrap import Estimate
from training.evaluate import MetricRow
from training.evaluation_text import estimate_json
from training.metrics import Floats
from training.sweep.grid import label
from training.sweep.trials import Outcome, Pick, Trial, overall

LEAST_MIXES = 4
"""Below it even a perfect ranking comes about by chance more often than one time in twenty: 1 / 3! > .05 > 1 / 4!."""
ALIKE, ROUGHLY = 0.8, 0.4
"""From which correlation of ranks a sentence says so."""


@dataclass(frozen=True)
class Agreement:
    """What the later days say of the small budget.

    Attributes:
        correlation: Spearman's, of the mixes' NE on the small budget and on the later days; None where undefined.
        mixes: how many have NE on both.
        small: pick of the small budget.
        later: what the same rule picks on the later days.
        held: the small budget's pick on the later days; None when there is no pick.
        best: the mix with the lowest NE there; None without evidence.
        lost: task -> NE of the small budget's pick over that of `best`, on the later days; empty without evidence.
    """

    correlation: float | None
    mixes: int
    small: Pick
    later: Pick
    held: Trial | None
    best: Trial | None
    lost: Mapping[str, Estimate]

    @property
    def same(self) -> bool | None:
        """Whether both pick the same; None when one of them picks nothing."""
        if self.small.trial is None or self.later.trial is None:
            return None
        return self.small.trial.mixing == self.later.trial.mixing

    def sentences(self) -> list[str]:
        """One for each question, two for losses."""
        return [self._ranking(), self._same(), *self._losses()]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "spearman": self.correlation,
            "mixes": self.mixes,
            "small_pick": self.small.name,
            "later_pick": self.later.name,
            "same_pick": self.same,
            "best_later": label(self.best.mixing) if self.best else None,
            "lost_to_best": {task: estimate_json(found) for task, found in self.lost.items()},
            "sentences": self.sentences(),
        }

    def _ranking(self) -> str:
        if self.mixes < LEAST_MIXES:
            return f"Ranking: insufficient ({self.mixes}): fewer than {LEAST_MIXES} mixes have NE on both budgets."
        if self.correlation is None:
            return "Ranking: undefined (all mixes tie), so there is no order to agree on."
        if self.correlation >= ALIKE:
            said = "the small budget ranks the mixes as the larger one does"
        elif self.correlation >= ROUGHLY:
            said = "the small budget ranks the mixes roughly as the larger one does; trust its extremes only"
        else:
            said = "the small budget's ranking does not carry over; sweep over more days"
        return f"Ranking: Spearman {self.correlation:.2f} over {self.mixes} mixes: {said}."

    def _same(self) -> str:
        for pick, where in ((self.small, "on the small budget"), (self.later, "on the later days")):
            if pick.trial is None:
                return f"Pick: undefined: nothing can be picked {where} ({pick.reasons})."
        if self.same:
            return f"Pick: the later days pick the same, {self.small.name}."
        return f"Pick: the later days pick {self.later.name} instead of {self.small.name}."

    def _losses(self) -> list[str]:
        if self.held is None or self.best is None:
            return ["Loss on the later days: undefined: there is no pick, or no NE to compare."]
        whole = ", ".join(f"{percent(self.held.lost(task))} of {task}'s NE" for task in self.later.tasks)
        lost = ", ".join(f"{percent(found)} of {task}'s NE" for task, found in self.lost.items())
        said = [] if self.held.mixing.whole else [f"Loss on the later days against no mixing: {whole}."]
        if self.best is self.held:
            return [*said, f"Loss on the later days against the best mix: none, {self.small.name} has the lowest NE."]
        return [*said, f"Loss on the later days against the lowest NE, of {label(self.best.mixing)}: {lost}."]


def agreement(small: Outcome, later: Outcome, against: Callable[[Trial, Trial], Sequence[MetricRow]]) -> Agreement:
    """Compare a small budget with later days.

    Args:
        small: judged small budget.
        later: the same arms in the same order, judged on later days.
        against: compares two arms on the pairs of the later days, the first with the second.
    """
    tasks = [task for task in small.pick.tasks if task in later.pick.tasks]
    scores = np.array([[trial.score(tasks) for trial in outcome.trials] for outcome in (small, later)]).T
    both = scores[np.isfinite(scores).all(axis=1)]
    known = [trial for trial in later.trials if isfinite(trial.score(later.pick.tasks))]
    best = min(known, key=lambda trial: trial.score(later.pick.tasks), default=None)
    held = later.of(small.pick.trial.mixing) if small.pick.trial else None
    lost = {}
    if held and best:
        table = against(held, best)
        ratios = {task: overall(table, task).estimates.get("ne_ratio") for task in later.pick.tasks}
        lost = {task: ratio for task, ratio in ratios.items() if ratio is not None}
    return Agreement(spearman(both[:, 0], both[:, 1]), len(both), small.pick, later.pick, held, best, lost)


def spearman(a: Floats, b: Floats) -> float | None:
    """Spearman's correlation of ranks [n], [n], ties at their mean rank; None when one side is all ties or n < 2."""
    if len(a) < 2:
        return None
    x, y = (rankdata(side) - (len(side) + 1) / 2 for side in (a, b))
    spread = sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / spread if spread > 0 else None


def percent(ratio: Estimate | None) -> str:
    """A ratio of NE as per cent lost with its interval, such as `+0.12 % [-0.30, +0.55]`."""
    if ratio is None:
        return ""
    if ratio.value.number is None:
        return str(ratio.value)
    value = f"{100 * (ratio.value.number - 1):+.2f} %"
    if ratio.interval is None:
        return f"{value} (no interval: {ratio.missing})"
    return f"{value} [{100 * (ratio.interval.low - 1):+.2f}, {100 * (ratio.interval.high - 1):+.2f}]"
