"""A vertical walks as GEM does; its control shares rows and steps; generations never mix."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from features.errors import GemlineError
from tests.training.conftest import DAYS
from tests.training.verticals.conftest import NEW, OLD, make_vertical_plan, reference
from training import checkpoint
from training.compute import Compute
from training.plan import ModelRef, Plan
from training.run import train

Tensors = dict[str, torch.Tensor]


def ran(plan: Plan, **changes: Any) -> Path:
    return train(replace(plan, **changes), Compute.alone(), lambda line: None)


def tensors(folder: Path) -> Tensors:
    return checkpoint.full_tensors(ModelRef(str(folder), ""))


def digest(folder: Path) -> str:
    return str(checkpoint.manifest_of(folder)["digest"])


def scores(folder: Path, role: str) -> np.ndarray:
    wanted = [("role", "==", role), ("scored_ds", "==", DAYS[3])]
    rows = pq.read_table(folder / checkpoint.PREDICTIONS, filters=wanted).to_pandas()
    return rows.sort_values(["task", "impression_id"])["prediction"].to_numpy()


def test_one_plan_gives_one_digest_and_round_trips(vertical: Plan, tmp_path: Path) -> None:
    path = vertical.write(tmp_path / "plan.json")
    first, second = ran(vertical), ran(Plan.read(path), output=str(tmp_path / "elsewhere"))
    assert digest(first) == digest(second)
    consumed = {table for table, _, _ in checkpoint.manifest_of(first)["consumed"]}
    assert consumed == {"examples", "labels", "user_history", "fm_outputs", "solaris_train_vectors"}


def test_two_walks_joined_equal_one(tmp_path: Path) -> None:
    whole = ran(make_vertical_plan(tmp_path / "a"))
    plan = make_vertical_plan(tmp_path / "b")
    half = ran(plan, walk=DAYS[:2], partition=DAYS[2], output=str(tmp_path / "half"))
    rest = ran(plan, walk=DAYS[2:3], parent=ModelRef(str(half), digest(half)), output=str(tmp_path / "rest"))
    one, two = tensors(whole), tensors(rest)
    assert one.keys() == two.keys()
    assert all(torch.equal(value, two[name]) for name, value in one.items())


def test_the_control_gets_nothing_of_the_foundation_model(vertical: Plan) -> None:
    assert vertical.transfer is not None
    other = replace(vertical.transfer, generation=reference(NEW))
    one, two = tensors(ran(vertical)), tensors(ran(vertical, transfer=other, output=vertical.output + "b"))
    alone = [name for name in one if name.startswith("alone.")]
    assert alone
    assert not any("memory" in name or "source" in name for name in alone)
    assert all(torch.equal(one[name], two[name]) for name in alone)
    assert any(not torch.equal(one[name], two[name]) for name in one if name.startswith("model."))


def test_without_its_gradient_the_teacher_changes_nothing_that_is_served(vertical: Plan) -> None:
    """Beta = 0: the trunk is trained by labels alone, bit for bit."""
    off = vertical.recipe.derive({"model.auxiliary_gradient": 0.0})
    still = vertical.recipe.derive({"model.auxiliary_gradient": 0.0, "distill_weight": 0.0})
    # clipping looks at all gradients together, the auxiliary head's own among them
    loose = {"clip_norm": 1e9}
    one, two = (
        tensors(ran(vertical, recipe=recipe.derive(loose), output=f"{vertical.output}{number}"))
        for number, recipe in enumerate((off, still))
    )
    served = [name for name in one if name.startswith("model.") and "auxiliary" not in name and "optim" not in name]
    assert all(torch.equal(one[name], two[name]) for name in served)
    taught = [name for name in one if name.startswith("model.auxiliary") and "optim" not in name]
    assert any(not torch.equal(one[name], two[name]) for name in taught)


def test_a_parent_of_another_generation_is_refused(vertical: Plan, tmp_path: Path) -> None:
    parent = ran(vertical, walk=DAYS[:2], partition=DAYS[2])
    assert vertical.transfer is not None
    switched = replace(vertical.transfer, generation=reference(NEW))
    with pytest.raises(GemlineError, match="start cold"):
        ran(
            vertical,
            walk=DAYS[2:3],
            parent=ModelRef(str(parent), digest(parent)),
            transfer=switched,
            output=str(tmp_path / "x"),
        )


def test_an_incumbent_scores_by_its_own_generation(vertical: Plan, tmp_path: Path) -> None:
    incumbent = ran(vertical, output=str(tmp_path / "incumbent"))
    assert vertical.transfer is not None
    switched = replace(vertical.transfer, generation=reference(NEW), incumbent=reference(OLD))
    ref = ModelRef(str(incumbent), digest(incumbent))
    folder = ran(vertical, transfer=switched, incumbent=ref, output=str(tmp_path / "candidate"))
    np.testing.assert_allclose(scores(folder, "incumbent"), scores(incumbent, "candidate"), atol=1e-7)
    assert np.abs(scores(folder, "candidate") - scores(folder, "incumbent")).max() > 1e-4
    unknown = replace(switched, incumbent=None)
    with pytest.raises(GemlineError, match="lists no outputs"):
        ran(vertical, transfer=unknown, incumbent=ref, output=str(tmp_path / "y"))


def test_rows_without_memory_vector_or_teacher_train_too(vertical: Plan) -> None:
    assert vertical.transfer is not None
    bare = replace(vertical.transfer, fm_outputs={}, vectors={})
    folder = ran(vertical, transfer=bare)
    assert all(torch.isfinite(value).all() for value in tensors(folder).values())
