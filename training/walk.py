"""Test, then train: the walk over label days, and the rows that a model is judged on.

For each day in order: score the day's examples with a model that has seen nothing of them, then train on the
pairs that became due on that day, each once. What a pair's first prediction was is kept, so every pair has a
score that was made before training on it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date as _date
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from features.transform.schema import FeatureSchema
from training.first_scores import FirstScores
from training.gates import Gates, collapsed
from training.metrics import Sample, normalized_entropy
from training.mixing import Mixing, mixed
from training.reader import Reader, Rows
from training.shares import TaskShares

if TYPE_CHECKING:
    from training.recalibration import Recalibration

Say = Callable[[str], None]
Link = Callable[[Tensor], Tensor]
"""What makes of raw logits what is asked for, elementwise."""
SCHEMA = pa.schema(
    [
        ("scored_ds", pa.string()),
        ("ds", pa.string()),
        ("impression_id", pa.int64()),
        ("task", pa.string()),
        ("role", pa.string()),
        ("prediction", pa.float64()),
    ]
)
EMPTY = SCHEMA.empty_table()
EVERYTHING = Mixing()
"""Every due pair is trained on."""

CANDIDATE = "candidate"
"""Role of the model that is trained; others are controls beside it, and the incumbent."""


class Trainee(Protocol):
    """What walks: a model and all that changes with it while it trains."""

    @property
    def schema(self) -> FeatureSchema: ...  # noqa: D102

    def scores(self, reader: Reader, rows: Rows, link: Link = torch.sigmoid) -> Mapping[str, np.ndarray]:
        """Probabilities in the full log of every row and task by role, `CANDIDATE` first: [N, T] each.

        Another `link` gives what it makes of the raw logits.
        """

    def train_on(self, reader: Reader, rows: Rows, where: str) -> Iterator[float]:
        """Train on each row once; yields the loss of every global batch."""

    def gates(self) -> Gates:
        """Gates over domain experts of what was trained on since the last call, by surface; see `training.gates`."""

    def start_at(self, rates: Mapping[str, float]) -> None:
        """Start tasks at base rates of the full log."""

    def weigh(self, rates: Mapping[str, float]) -> None:
        """Weigh tasks by the base rates that they started at, in this walk or before it."""

    @property
    def shares(self) -> TaskShares:
        """Of the last call of `train_on`."""


@dataclass
class Predictions:
    """Scores by (day scored on, role), and the first ones that each impression got."""

    schema: FeatureSchema
    parts: list[pa.Table] = field(default_factory=list)
    first: FirstScores = field(default_factory=FirstScores)

    def add(self, scored_day: str, role: str, rows: Rows, probability: np.ndarray, started: Collection[str]) -> None:
        """Keep the probabilities [N, T] of rows [N]: of each started task, where it exists.

        A task whose head has met no label yet predicts nothing, as a baseline without a label does.
        """
        surfaces = rows.columns["surface"].values
        days = np.array([_iso(day) for day in rows.day], dtype=object)
        for index, task in enumerate(self.schema.tasks):
            if task.name not in started:
                continue
            exists = np.isin(surfaces, task.surfaces or self.schema.surfaces)
            self.parts.append(_table(scored_day, days[exists], rows.impression_id[exists], task.name, role))
            column = pa.array(probability[exists, index].astype(np.float64))
            self.parts[-1] = self.parts[-1].append_column("prediction", column)
        if role == CANDIDATE and started:
            known = np.array([task.name in started for task in self.schema.tasks])
            self.first.add(rows, np.where(known, probability, np.nan))

    def as_served(self, rows: Rows) -> dict[str, Sample]:
        """Labels of labelled rows beside their first prediction, by task; rows never scored are left out."""
        assert rows.labels is not None
        given, found = self.first.of(rows, len(self.schema.tasks)), {}
        for index, task in enumerate(self.schema.tasks):
            due = (rows.labels.mask[:, index] > 0) & np.isfinite(given[:, index])
            label, weight = rows.labels.label[due, index], rows.labels.weight[due, index]
            found[task.name] = Sample.of(label, given[due, index], weight)
        return found

    def table(self) -> pa.Table:
        """Columns scored_ds, ds, impression_id, task, role, prediction."""
        return pa.concat_tables([EMPTY, *self.parts])


@dataclass
class Walked:
    """What a walk did, for the manifest and the reports.

    Attributes:
        days: by walked day: rows, steps, mean loss, as-served NE by task (None when undefined), the tasks' shares of
            the loss and of the trunk's gradient, gates by surface, and the mix by surface where not all due rows were
            trained on.
        consumed_examples: days whose examples were trained on.
        rates: base rate that each task started at, in this walk or before it.
    """

    days: dict[str, dict[str, Any]] = field(default_factory=dict)
    consumed_examples: set[str] = field(default_factory=set)
    rates: dict[str, float] = field(default_factory=dict)

    @property
    def started(self) -> set[str]:
        """Tasks whose heads have met a label."""
        return set(self.rates)


def walk(
    trainee: Trainee,
    reader: Reader,
    days: Collection[str],
    predictions: Predictions,
    rates: Mapping[str, float],
    say: Say,
    recalibration: "Recalibration",
    mixing: Mixing = EVERYTHING,
) -> Walked:
    """Walk label days in order, scoring each before training on it.

    Args:
        trainee: changes.
        reader: gives the rows.
        days: label days.
        predictions: gets a row for every scored example and task.
        rates: base rates of tasks that have met labels before; others start at the rates of their first labels.
        say: told one line a day.
        recalibration: of the trainee; learns each day's labels after the day was scored.
        mixing: which of the due rows are trained on; all are scored and judged.
    """
    mixing.require_fits(trainee.schema)
    walked = Walked(rates=dict(rates))
    for number, day in enumerate(days, start=1):
        today = reader.examples(day)
        for role, given in recalibration.scores(trainee, reader, today, walked.started).items():
            predictions.add(day, role, today, given, walked.started)
        due = reader.labelled(day)
        recalibration.learn(due, day)
        walked.rates |= start_biases(trainee, due, walked.rates)
        trainee.weigh(walked.rates)
        learned, mix = mixed(today, due, trainee.schema, mixing)
        losses = list(trainee.train_on(reader, learned, f"walk {day}"))
        walked.consumed_examples |= {_iso(ordinal) for ordinal in np.unique(due.day)}
        walked.days[day] = _summary(predictions.as_served(due), len(today), len(learned), losses)
        walked.days[day]["shares"] = trainee.shares.report()
        walked.days[day]["gates"] = gates = trainee.gates()
        if mix:
            walked.days[day]["mix"] = mix
        say(f"walk {number}/{len(days)} {day}: {_line(walked.days[day])}")
        if warning := collapsed(gates):
            say(f"walk {number}/{len(days)} {day}: {warning}")
    return walked


def start_biases(trainee: Trainee, due: Rows, started: Collection[str]) -> dict[str, float]:
    """Start each task at the base rate of the first labels that hold both classes, before training on them.

    Returns:
        The rates of the tasks that were started now.
    """
    assert due.labels is not None
    rates = {}
    for index, task in enumerate(trainee.schema.task_names):
        weight = due.labels.weight[:, index].astype(np.float64) * due.labels.mask[:, index]
        positive = float((weight * due.labels.label[:, index]).sum())
        if task not in started and 0 < positive < weight.sum():
            rates[task] = positive / float(weight.sum())
    trainee.start_at(rates)
    return rates


def _summary(samples: dict[str, Sample], scored: int, trained: int, losses: list[float]) -> dict[str, Any]:
    entropies = {task: normalized_entropy(sample) for task, sample in samples.items()}
    return {
        "scored": scored,
        "trained": trained,
        "steps": len(losses),
        "loss": float(np.mean(losses)) if losses else None,
        "as_served_ne": {task: value.number for task, value in entropies.items()},
    }


def _line(summary: dict[str, Any]) -> str:
    entropies = [f"{task} {value:.3f}" for task, value in summary["as_served_ne"].items() if value is not None]
    served = f", as-served NE {', '.join(entropies)}" if entropies else ""
    return f"{summary['scored']:,} scored, {summary['trained']:,} trained{served}"


def _table(scored_day: str, days: np.ndarray, impressions: np.ndarray, task: str, role: str) -> pa.Table:
    rows = len(impressions)
    columns = {"scored_ds": [scored_day] * rows, "ds": days, "impression_id": impressions, "task": [task] * rows}
    return pa.table(columns | {"role": [role] * rows}, schema=SCHEMA.remove(SCHEMA.get_field_index("prediction")))


def _iso(ordinal: int) -> str:
    return _date.fromordinal(int(ordinal)).isoformat()
