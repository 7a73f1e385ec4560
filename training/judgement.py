"""Judging one day's model: evaluation tables of what was served, and the decision of the gate.

Reads labels that became due on the day (`training.judging`), the predictions made before training on them, and
popularity with the same cut-off as control.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from features.tables.decisions import ACCEPTED
from training import baselines, evaluate, gate
from training.evaluation_text import reliability_markdown, to_json, to_markdown
from training.judging import PAIR, Scored, as_served, due_pairs, gate_rows, predictions_of, window_start
from training.lines import GEM, Line
from training.predictions import control_digest
from training.slices import ALL, DAY

if TYPE_CHECKING:
    from features.tables import Tables

POOLED_DAYS = 14
"""Days of the pooled as-served comparison, and how far back the gate may look for evidence."""
POOLED = f"_{POOLED_DAYS}d"
"""Ends the name of a plotted number of these days."""
PLOTTED_SLICES = 50
DUE = "label_ds"
"""What places a pair among the days: the day on which its label was known."""


@dataclass(frozen=True)
class Judgement:
    """What is known of a day's candidate.

    Attributes:
        decision: promoted, carried or rejected, with reason and evidence.
        served: metrics by task and slice of pairs due on the day, as served.
        pooled: the same over the last `POOLED_DAYS` days.
        against_popularity: the model against popularity refitted each day, paired, pooled over these days.
        transfer: a vertical with GEM against the same model alone, paired, pooled over these days; empty for GEM.
    """

    decision: gate.Decision
    served: list[evaluate.MetricRow]
    pooled: list[evaluate.MetricRow]
    against_popularity: list[evaluate.MetricRow]
    transfer: list[evaluate.MetricRow]

    def markdown(self) -> str:
        """All tables for people."""
        parts = [
            ("Due on the day, as served", self.served),
            (f"Due in the last {POOLED_DAYS} days, as served", self.pooled),
            (
                f"Against popularity refitted each day (difference = model - popularity), {POOLED_DAYS} days",
                self.against_popularity,
            ),
        ]
        if self.transfer:
            title = f"With GEM against the same model alone (difference = with - alone), {POOLED_DAYS} days"
            parts.append((title, self.transfer))
        reliability = f"### Reliability, {POOLED_DAYS} days\n\n{reliability_markdown(self.pooled)}"
        return "\n\n".join([*(f"### {title}\n\n{to_markdown(table)}" for title, table in parts), reliability])

    def to_json(self) -> dict[str, Any]:
        """Plain values, strict JSON."""
        return {
            "decision": self.decision.to_json(),
            "served": to_json(self.served),
            "pooled": to_json(self.pooled),
            "against_popularity": to_json(self.against_popularity),
            "transfer": to_json(self.transfer),
            "markdown": self.markdown(),
        }

    def plotted(self) -> dict[str, float]:
        """Numbers for a plot a day; what is undefined is left out.

        All metrics of every task over all its rows, of the day and pooled; of the `PLOTTED_SLICES` slices with most
        positives, days apart, the pooled NE, AUC and calibration.
        """
        found = {}
        for suffix, table in (("", self.served), (POOLED, self.pooled)):
            for row in table:
                if row.by == ALL:
                    found[f"positives_{row.task}{suffix}"] = float(row.counts.positives)
                    found |= _numbers(row, suffix, tuple(row.estimates))
        slices = [row for row in self.pooled if row.by not in (ALL, DAY)]
        for row in sorted(slices, key=lambda row: -row.counts.positives)[:PLOTTED_SLICES]:
            found |= _numbers(row, f"{POOLED}_{row.by}_{row.value}", ("ne", "auc", "calibration"))
        return found

    def write(self, path: Path, **about: Any) -> Path:
        """Write the JSON, with what else is known `about` the judged model."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**about, **self.to_json()}, indent=1, allow_nan=False), encoding="utf-8")
        return path


def _numbers(row: evaluate.MetricRow, suffix: str, names: Sequence[str]) -> dict[str, float]:
    values = {name: row.estimates[name].value.number for name in names if name in row.estimates}
    return {f"{name}_{row.task}{suffix}": number for name, number in values.items() if number is not None}


def judge(tables: "Tables", line: Line, ds: str, digest: str, look_back: int) -> Judgement:
    """Judge the candidate `digest` of day `ds` on what it has not trained on.

    Args:
        tables: with `labels`, `examples` and the line's predictions of the day published.
        line: model line.
        ds: day P.
        digest: of the candidate.
        look_back: days that popularity learns from.
    """
    world = tables.world
    pairs = due_pairs(tables, line, window_start(tables, ds, look_back + POOLED_DAYS), ds)
    chain = [*_accepted(tables, line, ds), Scored(ds, digest)]
    first = window_start(tables, ds, POOLED_DAYS)
    recent = pairs[pairs["label_ds"] >= first]
    given = predictions_of(tables, line, _needed(tables, line, chain, first))
    served = as_served(recent, _of(given, chain))
    gates = [_gate(tables, line, pairs, given, entry, look_back) for entry in chain if entry.ds >= first]
    earlier = pd.concat(gates[:-1]) if len(gates) > 1 else None
    n_min = world.min_positives
    return Judgement(
        decision=gate.decide(gates[-1], line.judged, n_min, earlier=earlier),
        served=evaluate.as_served(served, ds, 1, n_min, expected=line.tasks, day=DUE),
        pooled=evaluate.evaluate(served, n_min, expected=line.tasks, day=DUE),
        against_popularity=_against_popularity(line, pairs, served, look_back, n_min),
        transfer=_against_alone(given, chain, recent, served, n_min) if line.name != GEM else [],
    )


def _accepted(tables: "Tables", line: Line, ds: str) -> list[Scored]:
    accepted = tables.decisions.of_kinds(line.name, ACCEPTED)
    return [Scored(day, row.digest) for day, row in accepted.items() if day < ds]


def _needed(tables: "Tables", line: Line, chain: list[Scored], first: str) -> list[Scored]:
    """All predictions that a judgement reads: the chain's, their controls', and of judged days the incumbents'."""
    controls = [] if line.name == GEM else [_control(entry) for entry in chain]
    rivals = [(entry.ds, tables.decisions.incumbent(line.name, entry.ds)) for entry in chain if entry.ds >= first]
    return [*chain, *controls, *(Scored(ds, rival.digest) for ds, rival in rivals if rival)]


def _control(entry: Scored) -> Scored:
    return Scored(entry.ds, control_digest(entry.digest))


def _of(given: pd.DataFrame, scored: Sequence[Scored]) -> pd.DataFrame:
    """Those predictions that the named models gave on the named days."""
    named = pd.DataFrame([vars(entry) for entry in scored]).rename(columns={"ds": "scored_ds"})
    return given.merge(named, on=["scored_ds", "digest"]).drop(columns="digest")


def _gate(
    tables: "Tables", line: Line, pairs: pd.DataFrame, given: pd.DataFrame, candidate: Scored, look_back: int
) -> pd.DataFrame:
    """Candidate and incumbent of one day side by side on the judged pairs that became due on it."""
    own = gate_rows(pairs, _of(given, [candidate]), line.judged).rename(columns={"prediction": "candidate"})
    incumbent = tables.decisions.incumbent(line.name, candidate.ds)
    if incumbent is None:
        popularity = baselines.popularity_at(pairs, candidate.ds, look_back)
        own = own[own["task"].isin(list(popularity))]
        other = own[["task", "ad_id", "surface"]].groupby("task", group_keys=False)
        scores = [
            pd.Series(popularity[str(task)].predict(rows["ad_id"], rows["surface"]), rows.index) for task, rows in other
        ]
        own["incumbent"] = pd.concat(scores) if scores else pd.Series(dtype=float)
    else:
        other = _of(given, [Scored(candidate.ds, incumbent.digest)])
        rival = gate_rows(pairs, other, line.judged).rename(columns={"prediction": "incumbent"})
        own = own.merge(rival[["label_ds", *PAIR, "incumbent"]], on=["label_ds", *PAIR], validate="one_to_one")
    return own.assign(gate_ds=candidate.ds)


def _against_popularity(
    line: Line, pairs: pd.DataFrame, served: pd.DataFrame, look_back: int, n_min: int
) -> list[evaluate.MetricRow]:
    """The model minus popularity refitted each day with the walk's cut-off, on the judged pairs that both scored."""
    judged = served[served["task"].isin(line.judged)]
    known = pairs[pairs["task"].isin(line.judged)]
    rival = baselines.popularity_by_day(known, sorted(set(judged["ds"])), look_back)
    return _compared(judged, rival, n_min)


def _against_alone(
    given: pd.DataFrame, chain: list[Scored], recent: pd.DataFrame, served: pd.DataFrame, n_min: int
) -> list[evaluate.MetricRow]:
    """With GEM minus the same model alone, which trained on the same rows in the same steps."""
    alone = as_served(recent, _of(given, [_control(entry) for entry in chain]))
    return _compared(served, alone[[*PAIR, "prediction"]], n_min)


def _compared(own: pd.DataFrame, rival: pd.DataFrame, n_min: int) -> list[evaluate.MetricRow]:
    """Metrics of `prediction` minus those of `rival` on the pairs that have both."""
    both = own.merge(rival.rename(columns={"prediction": "prediction_b"}), on=PAIR, validate="one_to_one")
    return evaluate.compare(both, n_min, day=DUE)
