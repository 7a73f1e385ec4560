"""Shares of tasks: of the loss, and of the gradient at the heads' input against one backward pass a task."""

from dataclasses import replace

import pytest
import torch

from models.gem.loss import gem_loss
from orchestration.assets.lines import model_metadata
from training import checkpoint
from training.compute import Compute
from training.loop import build, train_on
from training.plan import Plan
from training.reader import Reader, Share
from training.run import train
from training.shares import TaskShares

CPU = Compute(torch.device("cpu"))


def test_shares_add_up_and_start_anew_each_day() -> None:
    shares = TaskShares(("click", "buy"))
    assert shares.report() == {}
    shares.add([3.0, 1.0])
    shares.add([1.0, 3.0])
    shares.gradient = [0.0, 0.0]
    assert shares.report() == {"loss": {"click": 0.5, "buy": 0.5}, "gradient": {"click": 0.0, "buy": 0.0}}
    shares.begin()
    assert shares.report() == {}


def test_gradients_are_those_of_the_first_batch_one_task_at_a_time(plan: Plan) -> None:
    reader = Reader(plan)
    rows = reader.labelled(plan.walk[1])
    recipe = plan.recipe.derive({"task_weights": {"buy": 3.0}})
    _, batch = next(reader.batches(rows, plan.schema, plan.recipe.batch_size, Share(), plan.recipe.cut))
    expected = []
    for task in ("click", "buy"):
        # a backward pass moves the tables
        trainee = build(plan.schema, recipe, plan.seed, CPU)
        logits, hidden = trainee.gem.represent(batch)
        hidden["trunk"].retain_grad()
        others = {name: 0.0 for name in ("click", "buy") if name != task}
        gem_loss(logits, batch, plan.schema, {**trainee.factors, **others}).total().backward()
        assert hidden["trunk"].grad is not None
        expected.append(float(hidden["trunk"].grad.norm()))
    trainee = build(plan.schema, recipe, plan.seed, CPU)
    losses = list(train_on(trainee, reader, rows, "walk"))
    assert trainee.shares.gradient == pytest.approx(expected, rel=1e-5)
    assert sum(trainee.shares.loss) == pytest.approx(sum(losses), rel=1e-6)


def test_watching_changes_no_weight(plan: Plan) -> None:
    reader = Reader(plan)
    rows = reader.labelled(plan.walk[1])
    watched, blind = (build(plan.schema, plan.recipe, plan.seed, CPU) for _ in range(2))
    list(train_on(watched, reader, rows, "walk"))
    blind.shares.begin = lambda: None  # type: ignore[method-assign]
    blind.shares.gradient = [0.0, 0.0]
    list(train_on(blind, reader, rows, "walk"))
    assert all(torch.equal(tensor, blind.tensors()[name]) for name, tensor in watched.tensors().items())


def test_every_walked_day_says_its_shares_and_the_last_one_is_plotted(plan: Plan) -> None:
    manifest = checkpoint.manifest_of(train(replace(plan), CPU, lambda line: None))
    days = manifest["metrics"]["days"]
    # buys are labelled from the second day on
    assert days[plan.walk[0]]["shares"]["loss"] == {"click": 1.0, "buy": 0.0}
    for day in plan.walk[1:]:
        for shares in days[day]["shares"].values():
            assert sum(shares.values()) == pytest.approx(1.0) and min(shares.values()) > 0
    shown = model_metadata(manifest)
    assert shown["loss_share/buy"] == days[plan.walk[-1]]["shares"]["loss"]["buy"]
    assert shown["gradient_share/click"] == days[plan.walk[-1]]["shares"]["gradient"]["click"]
