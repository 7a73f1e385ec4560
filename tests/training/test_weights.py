"""Task weights: fixed by base rates, kept along the chain, silent where a batch says nothing."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from training import checkpoint
from training.compute import Compute
from training.loop import build, train_step
from training.plan import ModelRef, Plan
from training.reader import Reader, Share
from training.recipes import RecipeError, recipe
from training.run import train
from training.weights import ENTROPY_FLOOR, task_factors

CPU = Compute(torch.device("cpu"))
TASKS = ("click", "buy")


def test_a_task_that_says_its_base_rate_costs_the_same_however_rare() -> None:
    for rate in (0.3, 0.05, 0.002):
        loss = -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)
        assert task_factors("entropy", {"click": rate}, TASKS)["click"] * loss == pytest.approx(1.0)
    assert task_factors("entropy", {"click": 1e-6}, TASKS)["click"] == 1 / ENTROPY_FLOOR
    # of the other task nothing is known
    assert task_factors("entropy", {}, TASKS)["buy"] == pytest.approx(1 / math.log(2))


def test_equal_and_given_weights() -> None:
    assert task_factors("equal", {"click": 0.01}, TASKS) == {"click": 1.0, "buy": 1.0}
    assert task_factors({"buy": 0.25}, {"click": 0.01}, TASKS) == {"click": 1.0, "buy": 0.25}
    with pytest.raises(RecipeError, match=r"task_weights names \['bye'\]"):
        task_factors({"bye": 0.25}, {}, TASKS)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [("entropies", "task_weights is 'entropies'"), ({"buy": -1.0}, r"task_weights of \['buy'\] must be finite")],
)
def test_a_recipe_refuses_weights_that_are_none(given: Any, sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        recipe("gem_tiny", {"task_weights": given})
    kept = recipe("gem_tiny", {"task_weights": {"buy": 0.5}})
    assert type(kept).from_dict(kept.to_dict()) == kept


def test_a_batch_without_conversions_changes_nothing_of_the_other_tasks(plan: Plan) -> None:
    reader = Reader(plan)
    rows = reader.labelled(plan.walk[1])
    _, batch = next(reader.batches(rows, plan.schema, 64, Share(), plan.recipe.cut))
    buys = batch.mask[:, 1] > 0
    assert buys.any() and (batch.label[buys, 1] > 0).any()

    def gradients(label: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        """Of every dense parameter, from the first task's loss and all others together."""
        trainee = build(plan.schema, plan.recipe.derive({"task_weights": "entropy"}), plan.seed, CPU)
        trainee.weigh({"click": 0.2, "buy": 0.4})
        trainee.dense.step = lambda: 0.0  # type: ignore[method-assign]
        train_step(trainee, replace(batch, label=label, mask=mask), "here")
        return {name: tensor.grad for name, tensor in trainee.dense.parameters.items() if tensor.grad is not None}

    no_sale, no_pair = batch.label.clone(), batch.mask.clone()
    no_sale[:, 1], no_pair[:, 1] = 0.0, 0.0
    usual, without = gradients(batch.label, batch.mask), gradients(no_sale, batch.mask)
    silent = gradients(batch.label, no_pair)
    for found in (without, silent):
        # row 0 of a head is the click's
        assert torch.equal(found["heads.tasks.weight"][0], usual["heads.tasks.weight"][0])
        assert torch.equal(found["linear_own.weight"][0], usual["linear_own.weight"][0])
    assert without["heads.tasks.weight"][1].any()
    # masked heads get exactly nothing
    assert not silent["heads.tasks.weight"][1].any() and not silent["heads.tasks.bias"][1]


def test_base_rates_are_part_of_a_model_and_pass_down_its_chain(plan: Plan, tmp_path: Path) -> None:
    weighed = replace(plan, recipe=plan.recipe.derive({"task_weights": "entropy"}))

    def ran(**changes: Any) -> dict[str, Any]:
        folder = train(replace(weighed, **changes), CPU, lambda line: None)
        return {**checkpoint.manifest_of(folder), "folder": str(folder)}

    whole = ran(output=str(tmp_path / "whole"))
    half = ran(walk=plan.walk[:2], partition=plan.walk[2], output=str(tmp_path / "half"))
    parent = ModelRef(half["folder"], half["digest"])
    rest = ran(walk=plan.walk[2:], parent=parent, output=str(tmp_path / "rest"))
    assert set(whole["base_rates"]) == {"click", "buy"} and all(0 < rate < 1 for rate in whole["base_rates"].values())
    assert rest["base_rates"] == half["base_rates"] == whole["base_rates"]
    assert rest["identity"]["config"]["base_rates"] == whole["base_rates"]
    # the same weights of tasks along the chain: the same model, bit by bit
    assert rest["identity"]["tensors"] == whole["identity"]["tensors"]
    equal = checkpoint.manifest_of(train(replace(plan, output=str(tmp_path / "equal")), CPU, lambda line: None))
    assert equal["base_rates"] == whole["base_rates"]
    assert equal["identity"]["tensors"] != whole["identity"]["tensors"]
