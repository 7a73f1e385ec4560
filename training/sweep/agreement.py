"""How a pick of a small budget generalises: the same arms on later days, after more training, that picked nothing.

Three questions: does the larger budget rank the mixes alike (Spearman), would it pick the same, and how much NE does the
small budget's pick lose there against the mix that is then the best. The best of several is lucky by nature, so the
last one is an upper guess. What cannot be answered says why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt

import numpy as np
from scipy.stats import rankdata

from training.bootstrap import Estimate
from training.evaluate import MetricRow
from training.sweep.grid import label
from training.sweep.trials import Pick, Trial, overall

LEAST_MIXES = 4
"""Below it even a perfect ranking comes about by chance more often than one time in twenty: 1 / 3! > .05 > 1 / 4!."""
ALIKE, ROUGHLY = 0.8, 0.4
"""From which correlation of ranks a sentence says so."""


@dataclass(frozen=True)
class Agreement:
    """What the later days say of the small budget.

    Attributes:
        correlation: Spearman's, of the mixes' NE on the small budget and on the later days; None where undefined.
        mixes: how many were ranked on both.
        small: pick of the small budget.
        later: what the same rule picks on the later days.
        best: the mix with the lowest NE there; None without evidence.
        lost: task -> NE of the small pick over that of `best`, on the later days; empty without evidence.
    """

    correlation: float | None
    mixes: int
    small: Pick
    later: Pick
    best: Trial | None
    lost: Mapping[str, Estimate]

    @property
    def same(self) -> bool | None:
        """Whether both pick the same; None when one of them picks nothing."""
        if self.small.trial is None or self.later.trial is None:
            return None
        return self.small.trial.mixing == self.later.trial.mixing

    def sentences(self) -> list[str]:
        """One for each question."""
        return [self._ranking(), self._same(), *self._losses()]

    def _ranking(self) -> str:
        if self.mixes < LEAST_MIXES:
            return f"Ranking: insufficient ({self.mixes}): fewer than {LEAST_MIXES} mixes have NE on both budgets."
        if self.correlation is None:
            return "Ranking: undefined (all mixes tie), so there is no order to agree on."
        for least, said in (
            (ALIKE, "the small budget ranks the mixes as the larger one does"),
            (ROUGHLY, "the small budget ranks the mixes roughly as the larger one does; trust its extremes only"),
        ):
            if self.correlation >= least:
                break
        else:
            said = "the small budget's ranking does not carry over; sweep over more days"
        return f"Ranking: Spearman {self.correlation:.2f} over {self.mixes} mixes: {said}."

    def _same(self) -> str:
        for pick, where in ((self.small, "on the small budget"), (self.later, "on the later days")):
            if pick.trial is None:
                return f"Pick: undefined: nothing can be picked {where} ({reasons(pick)})."
        if self.same:
            return f"Pick: the later days pick the same, {self.small.name}."
        return f"Pick: the later days pick {self.later.name} instead of {self.small.name}."

    def _losses(self) -> list[str]:
        if self.small.trial is None or self.best is None:
            return ["Loss on the later days: undefined, since there is no pick or no NE to compare."]
        if self.best.mixing == self.small.trial.mixing:
            return [f"Loss on the later days: none, {self.small.name} has the lowest NE there."]
        against = f"against {label(self.best.mixing)}, the lowest there"
        return [f"Loss on the later days: {percent(found)} of {task}'s NE {against}." for task, found in self.lost.items()]


def agreed(
    small: Sequence[Trial],
    later: Sequence[Trial],
    picks: tuple[Pick, Pick],
) -> tuple[float | None, int, Trial | None]:
    """Correlation of the two rankings, number of mixes ranked on both, and the best mix of the later days.

    Args:
        small: trials of the small budget.
        later: trials of the same mixes in the same order on the later days.
        picks: of both; tasks that had a vote in both are those ranked by.
    """
    tasks = [task for task in picks[0].tasks if task in picks[1].tasks]
    scores = [(one.score(tasks), other.score(tasks)) for one, other in zip(small, later, strict=True)]
    both = [pair for pair in scores if isfinite(pair[0]) and isfinite(pair[1])]
    known = [trial for trial in later if isfinite(trial.score(picks[1].tasks))]
    best = min(known, key=lambda trial: trial.score(picks[1].tasks), default=None)
    return spearman(*np.array(both).reshape(-1, 2).T), len(both), best


def spearman(a: "np.ndarray", b: "np.ndarray") -> float | None:
    """Spearman's correlation of ranks [n], [n], ties at their mean rank; None when one side is all ties or n < 2."""
    if len(a) < 2:
        return None
    x, y = (rankdata(side) - (len(side) + 1) / 2 for side in (a, b))
    spread = sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / spread if spread > 0 else None


def losses(table: Sequence[MetricRow], tasks: Sequence[str]) -> dict[str, Estimate]:
    """NE of one arm over another's by task, where it is known, from a comparison of the two."""
    found = {task: overall(table, task).estimates.get("ne_ratio") for task in tasks}
    return {task: ratio for task, ratio in found.items() if ratio is not None}


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


def reasons(pick: Pick) -> str:
    """Why primary tasks had no vote, such as `click: insufficient (3)`."""
    return ", ".join(f"{task}: {why}" for task, why in pick.silent.items()) or "no primary task"
