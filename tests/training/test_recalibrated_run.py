"""Recalibration through real runs: digests, checkpoints, predictions and manifests of GEM and of a vertical."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from scipy.special import expit, logit

from tests.training.verticals.conftest import make_vertical_plan
from training import checkpoint, dcp_json, logit_sums
from training.compute import Compute
from training.plan import ModelRef, Plan
from training.recalibration import PREFIX
from training.recipes import RecipeError, recipe
from training.run import train

CPU = Compute(torch.device("cpu"))
KEYS = ["scored_ds", "ds", "impression_id", "task", "role"]


def ran(plan: Plan, **changes: Any) -> Path:
    return train(replace(plan, **changes), CPU, lambda line: None)


def on(plan: Plan) -> Plan:
    return replace(plan, recipe=plan.recipe.derive({"recalibrate": True}))


def manifest(folder: Path) -> dict[str, Any]:
    return checkpoint.manifest_of(folder)


def ref(folder: Path) -> ModelRef:
    return ModelRef(str(folder), manifest(folder)["digest"])


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return dcp_json.full_tensors(folder / checkpoint.TENSORS)


def predictions(folder: Path) -> "pd.Series[float]":
    frame = pq.read_table(folder / checkpoint.PREDICTIONS).to_pandas()
    return frame.set_index(KEYS)["prediction"].sort_index()


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The synthetic days have some dozens of positives."""
    monkeypatch.setattr(logit_sums, "MIN_ROWS", 10)


@pytest.mark.parametrize("wrong", ["yes", 1, 0, None, 0.5, {"days": 7}])
def test_the_option_is_true_or_false(wrong: Any) -> None:
    for name in ("gem_tiny", "vertical_tiny"):
        assert not recipe(name).recalibrate and recipe(name, {"recalibrate": True}).recalibrate
        with pytest.raises(RecipeError, match=r"recalibrate is .*; it must be true or false"):
            recipe(name, {"recalibrate": wrong})


def test_a_recipe_names_the_option_only_where_it_is_on() -> None:
    off, made = recipe("gem_tiny"), recipe("gem_tiny", {"recalibrate": True})
    assert "recalibrate" not in off.to_dict() and type(off).from_dict(off.to_dict()) == off
    assert made.to_dict()["recalibrate"] is True and type(off).from_dict(made.to_dict()) == made


def test_it_changes_digest_and_probabilities_and_not_what_is_trained(plan: Plan, tmp_path: Path) -> None:
    off, found = ran(plan), ran(on(plan), output=str(tmp_path / "on"))
    again = ran(on(plan), output=str(tmp_path / "again"))
    assert manifest(found)["digest"] == manifest(again)["digest"] != manifest(off)["digest"]
    raw, held = tensors(off), tensors(found)
    assert {name for name in held if name not in raw} == {
        f"{PREFIX}candidate.{name}" for name in ("sums", "waiting.impression", "waiting.known", "waiting.logit")
    }
    assert all(torch.equal(tensor, held[name]) for name, tensor in raw.items())
    assert "recalibration" not in manifest(off) and "recalibration" not in manifest(off)["identity"]["config"]
    assert manifest(found)["identity"]["config"]["recalibration"] == manifest(found)["recalibration"]
    told = manifest(found)["recalibration"]["candidate"]["click"]["surfaces"]
    assert told["feed"]["level"] == told["story"]["level"] == "own" and told["feed"]["positives"] > 40
    rows = pd.DataFrame({"raw": predictions(off), "found": predictions(found)}).loc[plan.partition].reset_index()
    surface = pq.read_table(plan.examples[plan.partition].paths[0]).to_pandas().set_index("impression_id")["surface"]
    for name, own in told.items():
        clicks = rows[(rows.task == "click") & (rows.impression_id.map(surface) == name)]
        assert len(clicks) == 75
        expected = expit(own["slope"] * logit(clicks.raw) + own["offset"])
        np.testing.assert_allclose(clicks.found, expected, atol=1e-6)
        assert np.abs(clicks.found - clicks.raw).max() > 0.01


def test_two_walks_one_after_the_other_equal_one(plan: Plan, tmp_path: Path) -> None:
    plan = on(plan)
    whole = ran(plan)
    last = None
    for day, following in zip(plan.walk, (*plan.walk[1:], plan.partition), strict=True):
        step = ran(plan, walk=(day,), partition=following, parent=last, output=str(tmp_path / day))
        last = ref(step)
    one, two = tensors(whole), tensors(step)
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, two[name]), name
    assert two[f"{PREFIX}candidate.waiting.known"].any()
    assert manifest(whole)["recalibration"] == manifest(step)["recalibration"]
    expected = predictions(whole)
    pd.testing.assert_series_equal(predictions(step), expected.loc[[plan.walk[-1], plan.partition]], check_exact=True)


def test_labels_of_the_judged_day_are_not_known(plan: Plan) -> None:
    before = manifest(ran(on(plan)))["digest"]
    path = plan.labels[plan.partition].paths[0]
    data = pq.read_table(path)
    flipped = np.where(data.column("label").to_numpy() > 0, 0.0, 1.0)
    pq.write_table(data.set_column(data.column_names.index("label"), "label", [flipped]), path)
    assert manifest(ran(on(plan)))["digest"] == before


def test_an_incumbent_is_judged_with_lines_of_its_own(plan: Plan, tmp_path: Path) -> None:
    half = {"walk": plan.walk[:2], "partition": plan.walk[2]}
    raw, old = (ran(one, **half, output=str(tmp_path / name)) for name, one in (("raw", plan), ("old", on(plan))))
    for own, incumbent, candidate in ((plan, raw, on(plan)), (on(plan), old, plan)):
        still = ran(own, walk=(), parent=ref(incumbent), output=str(tmp_path / f"still {incumbent.name}"))
        given = predictions(ran(candidate, incumbent=ref(incumbent))).xs("incumbent", level="role")
        expected = predictions(still).loc[[plan.partition]].xs("candidate", level="role")
        pd.testing.assert_series_equal(given, expected, check_exact=True)


def test_a_chain_may_turn_it_on_and_off(plan: Plan, tmp_path: Path) -> None:
    half = {"walk": plan.walk[:2], "partition": plan.walk[2]}
    rest = {"walk": plan.walk[2:]}
    raw, old = (ran(one, **half, output=str(tmp_path / name)) for name, one in (("raw", plan), ("old", on(plan))))
    begun = ran(on(plan), **rest, parent=ref(raw), output=str(tmp_path / "begun"))
    ended = ran(plan, **rest, parent=ref(old), output=str(tmp_path / "ended"))
    without = ran(plan, **rest, parent=ref(raw), output=str(tmp_path / "without"))
    first = predictions(begun).loc[plan.walk[2]]
    np.testing.assert_allclose(first, predictions(without).loc[plan.walk[2]], rtol=1e-6)
    assert manifest(begun)["recalibration"]["candidate"]["click"]["pooled"]["positives"] < 60
    assert predictions(ended).equals(predictions(without)) and "recalibration" not in manifest(ended)


def test_a_vertical_and_its_control_have_lines_of_their_own(tmp_path: Path) -> None:
    plan = make_vertical_plan(tmp_path)
    off, found = ran(plan), ran(on(plan), output=str(tmp_path / "on"))
    told = manifest(found)["recalibration"]
    assert told["candidate"] != told["alone"] and set(told) == {"candidate", "alone"}
    raw, given = predictions(off).loc[plan.partition], predictions(found).loc[plan.partition]
    for role, lines in told.items():
        own = lines["click"]["surfaces"]["feed"]
        assert own["level"] == "own"
        clicks = {"task": "click", "role": role}
        before, after = (one.xs(tuple(clicks.values()), level=tuple(clicks)) for one in (raw, given))
        np.testing.assert_allclose(after, expit(own["slope"] * logit(before) + own["offset"]), atol=1e-6)
    half = ran(on(plan), walk=plan.walk[:2], partition=plan.walk[2], output=str(tmp_path / "half"))
    rest = ran(on(plan), walk=plan.walk[2:], parent=ref(half), output=str(tmp_path / "rest"))
    one, two = tensors(found), tensors(rest)
    assert one.keys() == two.keys() and all(torch.equal(tensor, two[name]) for name, tensor in one.items())
    assert predictions(rest).loc[plan.partition].equals(given)
