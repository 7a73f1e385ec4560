"""Two ranks compute what one process computes: losses, predictions, checkpoints, empty shares."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from training import checkpoint, dcp_json
from training.checkpoint import Attempt
from training.compute import Compute, agreed, summed
from training.loop import Trainee, build, score, train_on
from training.parallel import average_gradients
from training.plan import ModelRef, Plan
from training.reader import Reader
from training.run import train

CPU = Compute(torch.device("cpu"))
HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def module(name: str) -> ModuleType:
    """A file beside this one; the tests are no package."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec and spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


class Pair:
    """What one process and two ranks made of the same plan."""

    def __init__(self, root: Path) -> None:
        self.plan: Plan = module("conftest").make_plan(root)
        self.folder = train(self.plan, CPU, lambda line: None)
        self.reader = Reader(self.plan)
        self.out = root / "two"
        self.out.mkdir()
        path = self.plan.write(root / "plan.json")
        torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        command = [
            sys.executable,
            "-m",
            *torchrun,
            str(HERE / "ranks.py"),
            str(path),
            str(self.folder),
            str(self.out),
        ]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=110)
        assert done.returncode == 0, done.stderr[-4000:]
        self.results: dict[str, Any] = json.loads((self.out / "results.json").read_text())

    def one(self, folder: Path | None = None) -> Trainee:
        """An unsharded model, loaded from a checkpoint folder."""
        trainee = build(self.plan.schema, self.plan.recipe, self.plan.seed, CPU)
        if folder is not None:
            trainee.load(ModelRef(str(folder), ""))
        return trainee


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(tmp_path_factory.mktemp("pair"))


@pytest.mark.distributed
@pytest.mark.timeout(120)
@pytest.mark.parametrize("ways", ["planned", "row_wise", "table_wise"])
def test_the_losses_of_two_ranks_are_those_of_one(pair: Pair, ways: str) -> None:
    expected = module("ranks").losses(pair.plan, pair.reader, CPU)
    assert len(expected) == 12
    np.testing.assert_allclose(pair.results[ways], expected, rtol=1e-5)
    assert pair.results["sharded"] == "DistributedModelParallel"


@pytest.mark.distributed
@pytest.mark.parametrize("ways", ["row_wise", "table_wise"])
def test_sharded_predictions_are_the_unsharded_ones(pair: Pair, ways: str) -> None:
    expected = score(pair.one(pair.folder), pair.reader, pair.reader.gate(pair.reader.plan.partition))
    assert expected.std() > 0.01
    for rank in range(2):
        np.testing.assert_allclose(np.load(pair.out / f"scores_{ways}_{rank}.npy"), expected, atol=1e-6)


@pytest.mark.distributed
@pytest.mark.parametrize("ways", ["row_wise", "table_wise"])
def test_a_checkpoint_of_one_saved_again_by_two_is_the_same(pair: Pair, ways: str) -> None:
    """Weights, both optimizers and touch counters, through another number of ranks and back."""
    expected = dcp_json.full_tensors(pair.folder / checkpoint.TENSORS)
    found = dcp_json.full_tensors(Attempt(pair.out / ways, 1).tensors)
    assert expected.keys() == found.keys()
    assert {name.split(".")[0] for name in found} == {"model", "dense_optim", "table_optim", "touches"}
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name


@pytest.mark.distributed
def test_what_two_trained_goes_on_at_one(pair: Pair) -> None:
    two = Attempt(pair.out / "trained", 1)
    gate = pair.reader.gate(pair.reader.plan.partition)
    found = score(pair.one(two.folder), pair.reader, gate)
    np.testing.assert_allclose(found, np.load(pair.out / "trained_on_0.npy"), atol=1e-6)
    one = pair.one(pair.folder)
    list(train_on(one, pair.reader, pair.reader.labelled(pair.plan.partition), "on"))
    np.testing.assert_allclose(score(one, pair.reader, gate), found, atol=1e-4)
    sums = dcp_json.full_tensors(two.tensors)["table_optim.embeddings.collection.embeddings.ad.weight"]
    np.testing.assert_allclose(sums, one.tensors()["table_optim.embeddings.collection.embeddings.ad.weight"], rtol=1e-3)


@pytest.mark.distributed
def test_days_with_fewer_rows_than_ranks_are_used_once(pair: Pair) -> None:
    few, one = pair.results["few"], module("ranks").few_rows(pair.plan, pair.reader, CPU)
    np.testing.assert_allclose(few["losses"], one["losses"], rtol=1e-5)
    assert len(few["losses"]) == 3
    np.testing.assert_allclose(few["score"], one["score"], atol=1e-6)
    assert few["touched"] > 0


def test_without_a_group_nothing_is_exchanged() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    average_gradients([weight], CPU)
    assert weight.grad is not None
    assert weight.grad.tolist() == [0.0, 0.0]
    assert summed(torch.tensor(3.0), CPU).item() == 3.0
    assert agreed(7, CPU) == 7
