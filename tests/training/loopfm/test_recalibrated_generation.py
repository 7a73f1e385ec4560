"""A generation of a recalibrated GEM: it says the lines, and what it teaches is raw."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from features.home import Home
from models.recalibration import Lines
from tests.training.conftest import make_plan
from training import checkpoint, logit_sums
from training.compute import Compute
from training.loopfm import freeze
from training.loopfm.generation import Generation, activations_of, load
from training.plan import Plan
from training.reader import Reader
from training.run import train


def frozen(plan: Plan, home: Home) -> tuple[Generation, np.ndarray]:
    """The generation of a trained plan, and the probabilities of a click that its model gave on the last day."""
    folder = train(replace(plan, output=str(home.root / plan.output)), Compute.alone(), lambda line: None)
    digest = checkpoint.manifest_of(folder)["digest"]
    model: Any = SimpleNamespace(path=folder.relative_to(home.root).as_posix(), digest=digest, ds=plan.partition)
    tables: Any = SimpleNamespace(home=home, world=SimpleNamespace(name="w", transfer=SimpleNamespace(width=3)))
    rows = pq.read_table(folder / checkpoint.PREDICTIONS).to_pandas()
    clicks = rows[(rows.scored_ds == plan.partition) & (rows.task == "click")].sort_values("impression_id")
    return load(home, freeze.freeze(tables, model)["name"]), clicks.prediction.to_numpy()


def test_its_logits_are_raw_and_its_lines_make_the_released_probabilities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, home = make_plan(tmp_path), Home(tmp_path / "world")
    reader = Reader(plan)
    rows = reader.examples(plan.partition)
    ((_, batch),) = reader.batches(rows, plan.schema, len(rows), Compute.alone().share, plan.recipe.cut)
    monkeypatch.setattr(freeze, "_sample", lambda tables, gem, *rest: activations_of(gem, batch)[1].detach())
    monkeypatch.setattr(logit_sums, "MIN_ROWS", 10)
    plain, raw = frozen(replace(plan, output="plain"), home)
    found, given = frozen(replace(plan, output="on", recipe=plan.recipe.derive({"recalibrate": True})), home)
    assert "recalibration" not in plain.manifest and plain.manifest["name"] != found.manifest["name"]
    logits = found.outputs(batch)[0]
    assert torch.equal(logits, plain.outputs(batch)[0])
    lines = Lines.of(found.manifest["recalibration"], plan.schema.surfaces, plan.schema.task_names)
    calibrated = lines.of_logits(logits, batch.surface).sigmoid()[:, 0]
    np.testing.assert_allclose(logits.sigmoid()[:, 0], raw, atol=1e-5)
    np.testing.assert_allclose(calibrated, given, atol=1e-5)
    assert np.abs(raw - given).max() > 0.01
