"""Test, then train: nothing is trained on before it is scored, walks join, one plan gives one digest."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from features.errors import GemlineError
from training import checkpoint, dcp_json
from training.compute import Compute
from training.finite import NonFinite
from training.plan import ModelRef, Plan
from training.reader import Reader
from training.run import train, trained_before

CPU = Compute(torch.device("cpu"))
KEYS = ["scored_ds", "ds", "impression_id", "task", "role"]


def ran(plan: Plan, **changes: Any) -> Path:
    return train(replace(plan, **changes), CPU, lambda line: None)


def manifest(folder: Path) -> dict[str, Any]:
    return checkpoint.manifest_of(folder)


def predictions(folder: Path) -> pd.DataFrame:
    return pq.read_table(folder / checkpoint.PREDICTIONS).to_pandas().set_index(KEYS).sort_index()


def rewrite(plan: Plan, table: str, day: str, column: str, change: Callable[[pa.Array], pa.Array]) -> None:
    path = plan.files(table)[day].paths[0]
    data = pq.read_table(path)
    pq.write_table(data.set_column(data.column_names.index(column), column, change(data.column(column))), path)


def test_one_plan_gives_one_digest(plan: Plan, tmp_path: Path) -> None:
    first, second = ran(plan), ran(plan, output=str(tmp_path / "elsewhere"))
    assert manifest(first)["digest"] == manifest(second)["digest"]
    assert predictions(first).equals(predictions(second))
    assert manifest(ran(plan, seed=8))["digest"] != manifest(first)["digest"]


def test_only_the_same_plan_counts_as_trained_before(plan: Plan) -> None:
    assert trained_before(plan, 1) is None
    folder = ran(plan)
    assert trained_before(Plan.read(plan.write(folder.parent / "plan.json")), 1) == folder
    assert trained_before(plan, 2) is None
    assert trained_before(replace(plan, seed=8), 1) is None
    day = plan.walk[0]
    restated = plan.labels | {day: replace(plan.labels[day], content_hash="another")}
    assert trained_before(replace(plan, labels=restated), 1) is None


def test_the_digest_covers_what_was_consumed(plan: Plan) -> None:
    day = plan.walk[1]
    restated = plan.labels | {day: replace(plan.labels[day], content_hash="another")}
    first, second = manifest(ran(plan)), manifest(ran(plan, labels=restated))
    assert first["identity"]["tensors"] == second["identity"]["tensors"]
    assert first["digest"] != second["digest"]
    consumed = {(table, ds) for table, ds, _ in first["consumed"]}
    assert consumed == {
        *(("examples", ds) for ds in plan.walk),
        *(("labels", ds) for ds in plan.walk),
        *(("user_history", ds) for ds in plan.walk[:-1]),
    }


def test_histories_as_of_the_request_consume_the_last_day_too(plan: Plan) -> None:
    schema = replace(plan.schema, history=replace(plan.schema.history, as_of="request"))
    consumed = {ds for table, ds, _ in manifest(ran(plan, schema=schema))["consumed"] if table == "user_history"}
    assert consumed == set(plan.walk)


def test_every_example_of_a_walked_day_and_of_the_partition_is_scored(plan: Plan) -> None:
    rows = predictions(ran(plan)).reset_index()
    counts = rows[rows.role == "candidate"].groupby(["scored_ds", "ds", "task"]).size()
    # a task is predicted once its head has met labels; buy exists on feed only, every second row
    met = {
        task: min(
            day for day in plan.walk if task in set(pq.read_table(plan.labels[day].paths[0]).column("task").to_pylist())
        )
        for task in ("click", "buy")
    }
    assert met["click"] == plan.walk[0]
    assert counts.to_dict() == {
        (day, day, task): size
        for day in (*plan.walk, plan.partition)
        for task, size in (("click", 150), ("buy", 75))
        if day > met[task]
    }
    assert rows.prediction.between(0, 1, inclusive="neither").all()


def test_a_day_is_scored_before_its_labels_are_seen(plan: Plan) -> None:
    before = predictions(ran(plan))
    rewrite(plan, "labels", plan.walk[1], "label", lambda labels: pa.array(1.0 - labels.to_numpy()))
    after = predictions(ran(plan))
    assert plan.walk[0] not in before.index.get_level_values("scored_ds"), "nothing was known yet"
    assert before.loc[plan.walk[1]].equals(after.loc[plan.walk[1]])
    for day in (plan.walk[2], plan.partition):
        assert not before.loc[day].equals(after.loc[day])


def test_the_partition_is_judged_and_never_trained_on(plan: Plan) -> None:
    before = manifest(ran(plan))
    rewrite(plan, "labels", plan.partition, "label", lambda labels: pa.array(1.0 - labels.to_numpy()))
    assert manifest(ran(plan))["digest"] == before["digest"]


def test_two_walks_one_after_the_other_equal_one(plan: Plan, tmp_path: Path) -> None:
    """Weights, both optimizers and touch counters pass through the checkpoint bit by bit."""
    whole = ran(plan)
    half = ran(plan, walk=plan.walk[:2], partition=plan.walk[2], output=str(tmp_path / "half"))
    parent = ModelRef(str(half), manifest(half)["digest"])
    rest = ran(plan, walk=plan.walk[2:], parent=parent, output=str(tmp_path / "rest"))
    expected, found = (dcp_json.full_tensors(folder / checkpoint.TENSORS) for folder in (whole, rest))
    assert expected.keys() == found.keys()
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name
    assert predictions(rest).equals(predictions(whole).loc[[*plan.walk[2:], plan.partition]])
    assert manifest(rest)["digest"] != manifest(whole)["digest"]
    assert manifest(rest)["parent"]["digest"] == parent.digest


def test_the_incumbent_scores_the_candidates_very_rows(plan: Plan, tmp_path: Path) -> None:
    old = ran(plan, walk=plan.walk[:2], partition=plan.walk[2], output=str(tmp_path / "old"))
    ref = ModelRef(str(old), manifest(old)["digest"])
    rows = predictions(ran(plan, incumbent=ref)).loc[plan.partition].reset_index()
    candidate, incumbent = (rows[rows.role == role].reset_index(drop=True) for role in ("candidate", "incumbent"))
    keys = ["ds", "impression_id", "task"]
    assert candidate[keys].equals(incumbent[keys])
    assert (candidate.prediction - incumbent.prediction).abs().max() > 1e-4
    continued = predictions(ran(plan, walk=(), parent=ref, output=str(tmp_path / "same"))).reset_index()
    np.testing.assert_array_equal(continued.prediction, incumbent.prediction)


def test_a_parent_that_does_not_fit_is_refused(plan: Plan, tmp_path: Path) -> None:
    old = ran(plan, walk=plan.walk[:2], partition=plan.walk[2], output=str(tmp_path / "old"))
    parent = ModelRef(str(old), manifest(old)["digest"])
    with pytest.raises(GemlineError, match=f"trained on label days up to {plan.walk[1]}"):
        ran(plan, parent=parent)
    with pytest.raises(GemlineError, match="other sizes"):
        ran(plan, walk=plan.walk[2:], parent=parent, recipe=plan.recipe.derive({"model.dim": 16}))
    (old / checkpoint.COMMITTED).unlink()
    with pytest.raises(checkpoint.CheckpointError, match="did not end"):
        ran(plan, walk=plan.walk[2:], parent=parent)


def test_a_parent_of_an_earlier_version_is_refused(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = ran(plan, walk=plan.walk[:1], partition=plan.walk[1], output=str(tmp_path / "old"))
    without = {name: value for name, value in manifest(old).items() if name != "base_rates"}
    monkeypatch.setattr(checkpoint, "verified", lambda ref: without)
    with pytest.raises(GemlineError, match="does not say which base rates"):
        ran(plan, walk=plan.walk[1:], parent=ModelRef(str(old), manifest(old)["digest"]))


def test_a_run_that_fails_leaves_the_old_model_the_newest(plan: Plan) -> None:
    good = ran(plan)
    output = Path(plan.output)
    with pytest.raises(NonFinite, match=f"walk {plan.walk[0]}, step 0"):
        rewrite(plan, "examples", plan.walk[0], "keep_rate", lambda rates: pa.array(np.zeros(len(rates))))
        ran(plan)
    assert checkpoint.newest(output) == good


def test_the_manifest_says_what_happened(plan: Plan) -> None:
    folder = ran(plan)
    data = json.loads((folder / checkpoint.MANIFEST).read_text())
    assert data["position"] == plan.walk[-1]
    assert data["metrics"]["scored"] == 450
    assert data["metrics"]["days"][plan.walk[1]]["as_served_ne"]["click"] > 0
    assert data["metrics"]["days"][plan.walk[0]]["as_served_ne"]["buy"] is None
    gates = data["metrics"]["days"][plan.walk[1]]["gates"]
    assert set(gates) == set(plan.schema.surfaces)
    for gate in gates.values():
        assert sum(gate["mean"]) == pytest.approx(1.0, abs=1e-3) and gate["max"] == max(gate["mean"]) < 0.98
    assert Plan.from_dict(plan.to_dict()).schema.to_dict() == data["schema"]


def test_a_mix_trains_on_fewer_rows_and_scores_and_judges_all(plan: Plan, tmp_path: Path) -> None:
    recipe = plan.recipe.derive({"mixing": {"tau": 0.5, "budget": 0.4}})
    mixed = ran(plan, recipe=recipe, output=str(tmp_path / "mixed"))
    found = manifest(mixed)["metrics"]["days"][plan.walk[1]]
    mix = found["mix"]
    assert found["scored"] == 150 == len(predictions(mixed).loc[plan.walk[1]].xs("click", level="task"))
    assert mix["feed"]["due"] + mix["story"]["due"] == len(Reader(plan).labelled(plan.walk[1]))
    assert mix["feed"]["trained"] + mix["story"]["trained"] == found["trained"] < 100
    assert mix["feed"]["rate"] > mix["story"]["rate"], "ingest kept half of feed, so it showed fewer rows"
    # what an earlier day showed is no part of a day's rates, so walks join under a mix as well
    half = ran(plan, recipe=recipe, walk=plan.walk[:2], partition=plan.walk[2], output=str(tmp_path / "half"))
    parent = ModelRef(str(half), manifest(half)["digest"])
    rest = ran(plan, recipe=recipe, walk=plan.walk[2:], parent=parent, output=str(tmp_path / "rest"))
    assert manifest(rest)["identity"]["tensors"] == manifest(mixed)["identity"]["tensors"]
