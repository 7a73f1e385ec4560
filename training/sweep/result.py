"""A whole sweep: walk the small budget, pick, check the pick on later days, and tell it to people and files."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training import evaluate
from training.compute import Compute
from training.evaluation_text import estimate_json, to_json
from training.judgement import DUE
from training.mixing import Mixing
from training.plan import Plan
from training.sweep.agreement import Agreement, agreed, losses, percent, reasons
from training.sweep.arms import Arm, walked
from training.sweep.grid import label, snippet
from training.sweep.legs import Leg
from training.sweep.trials import Pick, Trial, judged, overall, picked
from training.walk import Say

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Stage:
    """What one leg of the walk needs.

    Attributes:
        leg: its days.
        plan: of no mixing, from a cold start; the check's parents come of the small budget.
        pairs: labels that judge it, as `training.judging.due_pairs` has them.
    """

    leg: Leg
    plan: Plan
    pairs: "pd.DataFrame"


@dataclass(frozen=True)
class Rules:
    """What judges and picks.

    Attributes:
        n_min: positives below which a slice is insufficient.
        tolerance: largest share of NE that the pick may lose.
    """

    n_min: int
    tolerance: float


@dataclass(frozen=True)
class Outcome:
    """A leg, judged.

    Attributes:
        leg: its days.
        trials: of all arms, no mixing first.
        pick: by the rules.
    """

    leg: Leg
    trials: list[Trial]
    pick: Pick

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            **asdict(self.leg),
            "trials": [_trial_json(trial) for trial in self.trials],
            "pick": self.pick.name,
            "silent": self.pick.silent,
        }


@dataclass(frozen=True)
class Sweep:
    """What came of a sweep.

    Attributes:
        plan: of the small budget: world, recipe, seed, tasks.
        rules: that judged and picked.
        small: the small budget, from which the pick comes.
        later: the days that check it; None when none were asked for.
        agreement: of the two.
    """

    plan: Plan
    rules: Rules
    small: Outcome
    later: Outcome | None = None
    agreement: Agreement | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values, strict JSON."""
        chosen = self.small.pick.trial
        return {
            "world": self.plan.world,
            "recipe": self.plan.recipe.to_dict(),
            "seed": self.plan.seed,
            **asdict(self.rules),
            "primary": list(self.plan.schema.judged_tasks),
            "pick": None if chosen is None else asdict(chosen.mixing),
            "overrides": None if chosen is None else snippet(chosen.mixing),
            "small": self.small.to_json(),
            "later": self.later.to_json() if self.later else None,
            "agreement": _agreement_json(self.agreement) if self.agreement else None,
        }

    def markdown(self) -> str:
        """Tables, the pick and how it generalises, for people."""
        parts = [f"# Data mixes of {self.plan.world}, recipe {self.plan.recipe.name}", self._leg("Small budget", self.small)]
        if self.later:
            parts.append(self._leg("Later days", self.later))
        parts.append(f"## Pick\n\n{self._picked()}")
        said = self.agreement.sentences() if self.agreement else ["Not checked: no later day was walked."]
        parts.append("## How it generalises\n\n" + "\n".join(f"- {sentence}" for sentence in said))
        return "\n\n".join(parts)

    def _leg(self, title: str, outcome: Outcome) -> str:
        leg = outcome.leg
        head = f"## {title}: walked {leg.walk[0]} to {leg.walk[-1]}, judged by labels of {leg.judged_from} to {leg.last}"
        tables = [_table(outcome.trials, task, self._role(task)) for task in self.plan.schema.task_names]
        return "\n\n".join([head, *tables])

    def _role(self, task: str) -> str:
        return "primary" if task in self.plan.schema.judged_tasks else "has no vote"

    def _picked(self) -> str:
        pick, limit = self.small.pick, f"{100 * self.rules.tolerance:g} %"
        if pick.trial is None:
            return f"None: no primary task has the evidence ({reasons(pick)}); sweep over more days."
        share = pick.trial.rows / self.small.trials[0].rows if self.small.trials[0].rows else 1.0
        without = f" Without a vote: {reasons(pick)}." if pick.silent else ""
        if pick.trial.mixing.whole:
            why = f"no cheaper mix is known to lose at most {limit} of NE; more days narrow the intervals"
        else:
            lost = ", ".join(f"{task} {percent(pick.trial.lost(task))}" for task in pick.tasks)
            why = f"{share:.0%} of the rows, NE lost {lost}, within {limit}"
        return f"{pick.name}: {why}.{without}\n\n```yaml\n{snippet(pick.trial.mixing)}\n```"


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
        SweepError: no judged pair was scored.
        GemlineError: as `training.run.train`.
    """
    tasks = small.plan.schema.judged_tasks
    arms = walked(small.plan, [Arm(mix) for mix in mixes], folder, compute, say)
    first = _outcome(small, arms, tasks, rules)
    if later is None:
        return Sweep(small.plan, rules, first)
    arms = walked(later.plan, arms, folder, compute, say)
    second = _outcome(later, arms, tasks, rules)
    correlation, mixes_ranked, best = agreed(first.trials, second.trials, (first.pick, second.pick))
    lost = {}
    if first.pick.trial and best:
        of = {label(arm.mixing): arm.served(later.pairs) for arm in arms if arm.mixing in (first.pick.trial.mixing, best.mixing)}
        rows = evaluate.paired_rows(of[first.pick.name], of[label(best.mixing)])
        lost = losses(evaluate.compare(rows, rules.n_min, day=DUE), second.pick.tasks)
    agreement = Agreement(correlation, mixes_ranked, first.pick, second.pick, best, lost)
    return Sweep(small.plan, rules, first, second, agreement)


def _outcome(stage: Stage, arms: Sequence[Arm], tasks: Sequence[str], rules: Rules) -> Outcome:
    trials = judged(arms, stage.pairs, rules.n_min)
    return Outcome(stage.leg, trials, picked(trials, tasks, rules.tolerance))


def _table(trials: Sequence[Trial], task: str, role: str) -> str:
    whole = overall(trials[0].table, task)
    head = f"### {task} ({role}): {whole.counts.rows:,} rows, {whole.counts.positives:,} positives"
    if whole.status != "ok":
        return f"{head}: {whole.status}"
    names = ["mix", "rows", "share", "steps", "s", "NE", "NE lost", "calibration", "worst surface"]
    lines = [names, ["---"] * len(names)]
    for trial in trials:
        metrics, worst = overall(trial.table, task).estimates, trial.worst_surface(task)
        share = f"{trial.rows / trials[0].rows:.0%}" if trials[0].rows else ""
        cost = [f"{trial.rows:,}", share, f"{trial.steps:,}", f"{trial.seconds:.0f}"]
        numbers = [str(metrics["ne"].value), percent(trial.lost(task)), str(metrics["calibration"].value)]
        lines.append([label(trial.mixing), *cost, *numbers, f"{worst[0]} {worst[1]:.3f}" if worst else ""])
    return head + "\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _trial_json(trial: Trial) -> dict[str, Any]:
    cost = {name: getattr(trial, name) for name in ("digest", "rows", "steps", "seconds")}
    tables = {"table": to_json(trial.table), "against_all_rows": to_json(trial.against)}
    return {"mix": label(trial.mixing), "mixing": asdict(trial.mixing), **cost, **tables}


def _agreement_json(agreement: Agreement) -> dict[str, Any]:
    return {
        "spearman": agreement.correlation,
        "mixes": agreement.mixes,
        "small_pick": agreement.small.name,
        "later_pick": agreement.later.name,
        "same_pick": agreement.same,
        "best_later": label(agreement.best.mixing) if agreement.best else None,
        "lost": {task: estimate_json(found) for task, found in agreement.lost.items()},
        "sentences": agreement.sentences(),
    }
