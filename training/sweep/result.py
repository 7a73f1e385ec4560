"""What came of a sweep, as Markdown for people and as JSON: all arms, the pick, and how it generalises."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from training.evaluation_text import to_json
from training.plan import Plan
from training.sweep.agreement import Agreement, percent
from training.sweep.grid import label, snippet
from training.sweep.trials import Outcome, Rules, Trial, overall


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
            "small": _outcome_json(self.small),
            "later": _outcome_json(self.later) if self.later else None,
            "agreement": self.agreement.to_json() if self.agreement else None,
        }

    def markdown(self) -> str:
        """Tables, the pick and how it generalises."""
        parts = [f"# Data mixes of {self.plan.world}, recipe {self.plan.recipe.name}"]
        parts.append(self._leg("Small budget", self.small))
        if self.later:
            parts.append(self._leg("Later days", self.later))
        parts.append(f"## Pick\n\n{self._picked()}")
        said = self.agreement.sentences() if self.agreement else ["Not checked: no later day was walked."]
        parts.append("## How it generalises\n\n" + "\n".join(f"- {sentence}" for sentence in said))
        return "\n\n".join(parts)

    def _leg(self, title: str, outcome: Outcome) -> str:
        leg, schema = outcome.leg, self.plan.schema
        walked, judged = _span(leg.walk[0], leg.walk[-1]), _span(leg.judged_from, leg.last)
        head = f"## {title}: walked {walked}, judged by labels of {judged}"
        roles = {task: "primary" if task in schema.judged_tasks else "no vote" for task in schema.task_names}
        return "\n\n".join([head, *(_table(outcome.trials, task, role) for task, role in roles.items())])

    def _picked(self) -> str:
        pick, limit = self.small.pick, f"{100 * self.rules.tolerance:g} %"
        if pick.trial is None:
            return f"None: no primary task has the evidence ({pick.reasons}); sweep over more days."
        without = f" Without a vote: {pick.reasons}." if pick.silent else ""
        if pick.trial.mixing.whole:
            why = f"no cheaper mix is known to lose at most {limit} of NE; more days narrow the intervals"
        else:
            lost = ", ".join(f"{task} {percent(pick.trial.lost(task))}" for task in pick.tasks)
            why = f"{_share(pick.trial, self.small.trials)} of the rows, NE lost: {lost}, within {limit}"
        return f"{pick.name}: {why}.{without}\n\n```yaml\n{snippet(pick.trial.mixing)}\n```"


def _table(trials: Sequence[Trial], task: str, role: str) -> str:
    whole = overall(trials[0].table, task)
    head = f"### {task} ({role}): {whole.counts.rows:,} rows, {whole.counts.positives:,} positives"
    if whole.status != "ok":
        return f"{head}: {whole.status}"
    names = ["mix", "rows", "share", "steps", "s", "NE", "NE lost", "calibration", "worst surface"]
    lines = [names, ["---"] * len(names)]
    for trial in trials:
        metrics, worst = overall(trial.table, task).estimates, trial.worst_surface(task)
        cost = [f"{trial.rows:,}", _share(trial, trials), f"{trial.steps:,}", f"{trial.seconds:.0f}"]
        numbers = [str(metrics["ne"].value), percent(trial.lost(task)), str(metrics["calibration"].value)]
        lines.append([label(trial.mixing), *cost, *numbers, f"{worst[0]} {worst[1]:.4f}" if worst else ""])
    return head + "\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _span(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _share(trial: Trial, trials: Sequence[Trial]) -> str:
    return f"{trial.rows / trials[0].rows:.0%}" if trials[0].rows else ""


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    trials = [_trial_json(trial) for trial in outcome.trials]
    return {**asdict(outcome.leg), "trials": trials, "pick": outcome.pick.name, "silent": outcome.pick.silent}


def _trial_json(trial: Trial) -> dict[str, Any]:
    cost = {name: getattr(trial, name) for name in ("digest", "rows", "steps", "seconds")}
    tables = {"table": to_json(trial.table), "against_all_rows": to_json(trial.against)}
    return {"mix": label(trial.mixing), "mixing": asdict(trial.mixing), **cost, **tables}
