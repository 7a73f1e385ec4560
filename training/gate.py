"""The gate: whether a trained model goes live, becomes only the parent of the next one, or is thrown away.

Candidate and incumbent are judged on identical rows, by the paired interval of their difference in NE, one
primary task at a time. What "undefined" means here is decided by its cause:

- *Broken* - a parameter or weight that is not finite; a prediction that is not, or lies outside [0, 1], of
  the candidate in any task or of the incumbent in a primary one - **rejects**. Finite rows cannot produce it,
  so it is no lack of evidence. A broken incumbent rejects too: nothing was compared, and a person must look.
- *Too little evidence* - no rows, one class (however many rows), fewer than `n_min` positives, a single
  user, or resamples that mostly lack a class, all after pooling - says nothing against the candidate: that
  task has no vote. When no primary task has one, the model is **carried**.

Verdicts are reached only by comparing finite numbers; NaN never takes part in a comparison.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from features.errors import GemlineError
from training.bootstrap import Estimate
from training.evaluate import compare, sample_of
from training.evaluation_text import estimate_json
from training.metrics import FAULTS, Counts, Reason, counts
from training.slices import ALL

Kind = Literal["promoted", "carried", "rejected"]
Verdict = Literal["not worse", "worse", "no evidence"]
_COLUMNS = ["task", "surface", "ds", "user_id", "label", "weight", "candidate", "incumbent"]
_DIFFERENCES = ("ne_difference", "ne_ratio", "auc_difference")


@dataclass(frozen=True)
class TaskEvidence:
    """What one primary task says.

    Attributes:
        task: the task.
        verdict: `worse` vetoes, `not worse` speaks for promotion, `no evidence` has no vote.
        reason: one sentence.
        counts: of the rows judged, pooled days included.
        days: judged days (`gate_ds`) that were pooled, newest first; `today` is the day being decided.
        estimates: of the comparison (`training.evaluate.compare`), empty without evidence.
    """

    task: str
    verdict: Verdict
    reason: str
    counts: Counts
    days: tuple[str, ...]
    estimates: dict[str, Estimate] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values for the decisions ledger."""
        found: dict[str, Any] = {"task": self.task, "verdict": self.verdict, "reason": self.reason}
        found |= {**vars(self.counts), "days": list(self.days)}
        for name, found_as in (("ne_a", "ne_candidate"), ("ne_b", "ne_incumbent")):
            if name in self.estimates:
                found[found_as] = self.estimates[name].value.number
        for name in _DIFFERENCES:
            if name in self.estimates:
                found[name] = estimate_json(self.estimates[name])
        return found


@dataclass(frozen=True)
class Decision:
    """The verdict on a candidate.

    Attributes:
        kind: `promoted` (live and parent), `carried` (parent only) or `rejected` (neither).
        reason: one sentence for people.
        evidence: one entry a primary task; empty when the model was broken before any comparison.
    """

    kind: Kind
    reason: str
    evidence: tuple[TaskEvidence, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Plain values for the decisions ledger; strict JSON, nothing in it is NaN."""
        return {
            "kind": self.kind,
            "reason": self.reason,
            "evidence": [task.to_json() for task in self.evidence],
        }


def decide(
    rows: pd.DataFrame,
    primary: Sequence[str],
    n_min: int,
    tolerance: float = 0.0,
    earlier: pd.DataFrame | None = None,
    resamples: int = 1000,
    seed: int = 0,
    finite_parameters: bool = True,
) -> Decision:
    """Decide about the candidate of one day.

    Args:
        rows: pairs with `label_ds` = the day, both sides beside each other: columns task, surface, ds, user_id
            (nullable), label, weight, candidate, incumbent (probabilities). Without an incumbent yet, popularity
            with the same cut-off; leave out pairs of primary tasks that it cannot score because no label of theirs
            was known.
        primary: the primary tasks; only these can veto, and only with evidence.
        n_min: positives below which a task has no evidence.
        tolerance: difference in NE that is still "not worse".
        earlier: rows of the gates of earlier days, the same columns and `gate_ds`, each day with its own
            candidate and incumbent as judged then. Leave out days whose candidate was rejected (no ancestor
            of this one) and days too old to count. A task takes as few of them as it needs for `n_min`
            positives, newest first.
        resamples: bootstrap resamples of users.
        seed: of the resamples.
        finite_parameters: whether all parameters of the candidate are finite.

    Raises:
        GemlineError: no primary task is named, or a column is missing.
    """
    if not primary:
        raise GemlineError("the gate has no primary task to judge; mark at least one task of the world as primary")
    days = rows.assign(gate_ds="today") if earlier is None else _with_earlier(rows, earlier)
    if missing := [name for name in _COLUMNS if name not in days]:
        raise GemlineError(f"gate rows lack {', '.join(missing)}; join candidate and incumbent to the labels")
    if broken := _broken(rows, primary, finite_parameters):
        return Decision("rejected", broken)
    evidence = tuple(_judge(days, task, n_min, tolerance, resamples, seed) for task in primary)
    worse = [task for task in evidence if task.verdict == "worse"]
    if worse:
        return Decision("rejected", "; ".join(f"{task.task}: {task.reason}" for task in worse), evidence)
    better = [task for task in evidence if task.verdict == "not worse"]
    kind: Kind = "promoted" if better else "carried"
    return Decision(kind, "; ".join(f"{task.task}: {task.reason}" for task in better or evidence), evidence)


def _with_earlier(rows: pd.DataFrame, earlier: pd.DataFrame) -> pd.DataFrame:
    if "gate_ds" not in earlier:
        raise GemlineError("rows of earlier gates lack gate_ds, the day on which each was judged")
    return pd.concat([rows.assign(gate_ds="today"), earlier], ignore_index=True)


def _broken(rows: pd.DataFrame, primary: Sequence[str], finite_parameters: bool) -> str | None:
    if not finite_parameters:
        return "a parameter of the candidate is not finite"
    for task, part in rows.groupby("task"):
        for side in ("candidate", "incumbent") if task in primary else ("candidate",):
            fault = sample_of(part, side).fault()
            if fault in FAULTS:
                values = part[side].to_numpy(dtype=np.float64, na_value=np.nan)
                bad = int((~np.isfinite(values)).sum())
                return f"{task}: {fault} of the {side} ({bad} of {len(part)} predictions are not finite)"
    return None


def _judge(days: pd.DataFrame, task: str, n_min: int, tolerance: float, resamples: int, seed: int) -> TaskEvidence:
    pooled, names = _pool(days[days["task"] == task], n_min)
    candidate, incumbent = sample_of(pooled, "candidate"), sample_of(pooled, "incumbent")
    size = counts(candidate)
    lacking = candidate.two_class_fault() or incumbent.two_class_fault()
    if lacking is None and size.positives < n_min:
        return _without(task, f"{size.positives} positives, fewer than {n_min}", size, names)
    if lacking is not None:
        return _without(task, f"undefined ({lacking})", size, names)
    estimates = _compared(pooled, resamples, seed)
    pair = estimates["ne_difference"]
    difference, interval = pair.value.number, pair.interval
    if difference is None or interval is None:
        return _without(task, f"no interval ({pair.missing or Reason.FEW_RESAMPLES})", size, names)
    found = f"NE difference {difference:+.4f} [{interval.low:+.4f}, {interval.high:+.4f}]"
    if interval.low > tolerance:
        reason = f"worse than the incumbent, {found} is above {tolerance:g}"
        return TaskEvidence(task, "worse", reason, size, names, estimates)
    return TaskEvidence(task, "not worse", f"not worse than the incumbent, {found}", size, names, estimates)


def _compared(rows: pd.DataFrame, resamples: int, seed: int) -> dict[str, Estimate]:
    """Candidate (A) against incumbent (B) on all rows of one task."""
    both = rows.rename(columns={"candidate": "prediction", "incumbent": "prediction_b"})
    (whole,) = (row for row in compare(both, 1, resamples, seed) if row.by == ALL)
    return whole.estimates


def _without(task: str, reason: str, size: Counts, days: tuple[str, ...]) -> TaskEvidence:
    return TaskEvidence(task, "no evidence", f"too little evidence: {reason}", size, days)


def _pool(rows: pd.DataFrame, n_min: int) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Today's rows, and as many sound earlier days as it takes to have `n_min` positives and both classes."""
    by_day = {str(day): part for day, part in rows.groupby("gate_ds")}
    parts, names = [by_day.pop("today", rows.iloc[:0])], ["today"]
    for day in sorted(by_day, reverse=True):
        label = pd.concat([part["label"] for part in parts])
        if label.sum() >= n_min and (label == 0).any():
            break
        if not any(sample_of(by_day[day], side).fault() in FAULTS for side in ("candidate", "incumbent")):
            parts.append(by_day[day])
            names.append(day)
    return pd.concat(parts), tuple(names)
