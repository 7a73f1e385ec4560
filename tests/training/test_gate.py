"""The gate: promoted, carried, rejected, on normal days and on those of one class (B18)."""

import json

import numpy as np
import pandas as pd
import pytest

from features.errors import GemlineError
from training.gate import Decision, decide


def gate_rows(seed: int = 0, n: int = 2000, task: str = "purchase", noise: float = 0.0) -> pd.DataFrame:
    """Pairs whose incumbent knows the truth; `noise` spoils the candidate, a negative one the incumbent."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(-2, 1, n)
    truth = 1 / (1 + np.exp(-logit))
    spoiled = 1 / (1 + np.exp(-logit - abs(noise) * rng.normal(0, 1, n)))
    rows = pd.DataFrame({"ds": "2017-06-01", "impression_id": np.arange(n) + seed * 10**6, "task": task})
    rows["surface"] = rng.choice(["mailer", "display"], n)
    rows["user_id"] = pd.Series(rng.integers(0, 200, n), dtype="Int64").mask(rng.random(n) < 0.1)
    rows["label"] = (rng.random(n) < truth).astype(float)
    rows["weight"] = np.where(rows["label"] == 1, 1.0, 10.0)
    rows["candidate"] = spoiled if noise > 0 else truth
    rows["incumbent"] = spoiled if noise < 0 else truth
    return rows


def judge(rows: pd.DataFrame, **options: object) -> Decision:
    """The decision on purchase with the defaults of these tests."""
    arguments: dict = {"primary": ["purchase"], "n_min": 50, "resamples": 200, **options}
    return decide(rows, **arguments)


def test_better_and_equal_models_are_promoted() -> None:
    better = judge(gate_rows(noise=-1.0))
    assert better.kind == "promoted"
    (evidence,) = better.evidence
    interval = evidence.estimates["ne_difference"].interval
    assert interval is not None and interval.high < 0
    assert judge(gate_rows()).kind == "promoted"


def test_worse_model_is_rejected_with_the_interval_in_the_reason() -> None:
    decision = judge(gate_rows(noise=1.0))
    assert decision.kind == "rejected"
    assert "purchase: worse than the incumbent, NE difference +" in decision.reason


def test_interval_that_touches_the_tolerance_is_not_worse() -> None:
    rows = gate_rows(noise=1.0)
    (evidence,) = judge(rows).evidence
    interval = evidence.estimates["ne_difference"].interval
    assert interval is not None
    assert judge(rows, tolerance=interval.low).kind == "promoted"
    assert judge(rows, tolerance=interval.low - 1e-9).kind == "rejected"
    uncertain = judge(gate_rows(n=600, noise=0.2, seed=4), n_min=20)
    assert uncertain.kind == "promoted"


@pytest.mark.parametrize("label", [0.0, 1.0])
@pytest.mark.parametrize("n", [50, 5000])
@pytest.mark.parametrize("noise", [-1.0, 1.0])
def test_day_of_one_class_is_carried_whoever_is_better(label: float, n: int, noise: float) -> None:
    decision = judge(gate_rows(n=n, noise=noise).assign(label=label))
    assert decision.kind == "carried"
    assert decision.reason == "purchase: too little evidence: undefined (one class)"
    assert decision.evidence[0].counts.rows == n


def test_day_without_rows_is_carried() -> None:
    decision = judge(gate_rows().iloc[:0])
    assert decision.kind == "carried"
    assert "no rows" in decision.reason


def test_surface_of_only_zeros_does_not_stop_the_decision() -> None:
    rows = gate_rows()
    rows.loc[rows["surface"] == "mailer", "label"] = 0.0
    assert judge(rows).kind == "promoted"


def test_too_few_positives_are_carried_even_when_they_look_terrible() -> None:
    rows = gate_rows(n=300, noise=3.0)
    positives = int(rows["label"].sum())
    assert judge(rows, n_min=positives).kind == "rejected"
    decision = judge(rows, n_min=positives + 1)
    assert decision.kind == "carried"
    assert f"{positives} positives, fewer than {positives + 1}" in decision.reason


def test_one_user_is_too_little_evidence() -> None:
    decision = judge(gate_rows(noise=1.0).assign(user_id=7))
    assert decision.kind == "carried"
    assert "fewer than two users" in decision.reason


@pytest.mark.parametrize("side", ["candidate", "incumbent"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -0.1, 1.5])
def test_a_single_broken_prediction_rejects_whatever_the_evidence(side: str, value: float) -> None:
    for rows in (gate_rows(noise=-1.0), gate_rows(n=20), gate_rows().assign(label=0.0)):
        rows.loc[rows.index[3], side] = value
        decision = judge(rows)
        assert decision.kind == "rejected"
        assert f"of the {side}" in decision.reason


def test_broken_prediction_of_a_secondary_task_and_broken_weights_reject() -> None:
    other = gate_rows(task="rebought")
    other.loc[0, "candidate"] = np.nan
    assert judge(pd.concat([gate_rows(), other])).kind == "rejected"
    assert judge(gate_rows(), finite_parameters=False).kind == "rejected"
    rows = gate_rows()
    rows.loc[0, "weight"] = np.nan
    assert judge(rows).kind == "rejected"


def test_only_primary_tasks_with_evidence_veto() -> None:
    good, bad = gate_rows(noise=-1.0), gate_rows(seed=1, task="rebought", noise=2.0)
    rows = pd.concat([good, bad])
    assert judge(rows).kind == "promoted"
    decision = judge(rows, primary=["purchase", "rebought"])
    assert decision.kind == "rejected"
    assert decision.reason.startswith("rebought: worse")
    assert [task.verdict for task in decision.evidence] == ["not worse", "worse"]
    few = pd.concat([good, bad.iloc[:40]])
    decision = judge(few, primary=["purchase", "rebought"])
    assert decision.kind == "promoted"
    assert [task.verdict for task in decision.evidence] == ["not worse", "no evidence"]


def test_pooling_takes_as_few_earlier_days_as_needed_each_with_its_own_pair() -> None:
    days = [gate_rows(seed=i, n=400).assign(gate_ds=f"2017-06-0{i}") for i in range(1, 5)]
    today = gate_rows(seed=9, n=100)
    newest = int(days[3]["label"].sum()) + int(today["label"].sum())
    decision = judge(today, n_min=newest, earlier=pd.concat(days))
    assert decision.kind == "promoted"
    assert decision.evidence[0].days == ("today", "2017-06-04")
    assert decision.evidence[0].counts.positives == newest
    assert decision.evidence[0].counts.rows == 500
    further = judge(today, n_min=newest + 1, earlier=pd.concat(days))
    assert further.evidence[0].days == ("today", "2017-06-04", "2017-06-03")
    enough = judge(today, n_min=1, earlier=pd.concat(days))
    assert enough.evidence[0].days == ("today",)
    assert judge(today, n_min=10**6, earlier=pd.concat(days)).kind == "carried"


def test_pooled_days_are_judged_by_their_own_candidates() -> None:
    worse = gate_rows(seed=1, noise=2.0).assign(gate_ds="2017-05-31")
    today = gate_rows(seed=2, n=30)
    decision = judge(today, n_min=100, earlier=worse)
    assert decision.kind == "rejected"
    assert judge(today, n_min=100, earlier=worse.assign(candidate=worse["incumbent"])).kind == "promoted"


def test_day_of_zeros_is_judged_with_earlier_days() -> None:
    zeros = gate_rows(n=100).assign(label=0.0)
    decision = judge(zeros, earlier=gate_rows(seed=5).assign(gate_ds="2017-05-31"))
    assert decision.kind == "promoted"
    assert decision.evidence[0].days == ("today", "2017-05-31")


def test_earlier_day_with_a_broken_prediction_is_passed_over() -> None:
    broken = gate_rows(seed=5, noise=3.0).assign(gate_ds="2017-05-31")
    broken.loc[0, "candidate"] = np.nan
    sound = gate_rows(seed=6).assign(gate_ds="2017-05-30")
    decision = judge(gate_rows(n=30), earlier=pd.concat([broken, sound]))
    assert decision.kind == "promoted"
    assert decision.evidence[0].days == ("today", "2017-05-30")
    assert judge(gate_rows(n=30), earlier=broken).kind == "carried"


def test_incumbent_that_cannot_score_a_secondary_task_does_not_matter() -> None:
    other = gate_rows(task="rebought").assign(incumbent=np.nan)
    assert judge(pd.concat([gate_rows(), other])).kind == "promoted"


@pytest.mark.parametrize("rows", [gate_rows(), gate_rows(noise=1.0), gate_rows().assign(label=0.0)])
def test_decisions_are_strict_json_and_repeatable(rows: pd.DataFrame) -> None:
    plain = json.dumps(judge(rows).to_json(), allow_nan=False)
    assert plain == json.dumps(judge(rows).to_json(), allow_nan=False)
    evidence = json.loads(plain)["evidence"][0]
    assert evidence["task"] == "purchase"
    if evidence["verdict"] != "no evidence":
        assert {"ne_candidate", "ne_incumbent", "ne_difference", "ne_ratio", "auc_difference"} < evidence.keys()


def test_gate_without_primary_task_or_columns_says_so() -> None:
    with pytest.raises(GemlineError, match="no primary task"):
        judge(gate_rows(), primary=[])
    with pytest.raises(GemlineError, match="lack incumbent"):
        judge(gate_rows().drop(columns="incumbent"))
    with pytest.raises(GemlineError, match="gate_ds"):
        judge(gate_rows(), earlier=gate_rows())
