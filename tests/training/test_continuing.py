"""Chains go on where the world's surfaces change: rows are found by name, new surfaces start cold and harmless."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from features.errors import GemlineError
from features.transform.schema import FeatureSchema, TaskSpec
from tests.training.conftest import schema
from training import checkpoint, dcp_json
from training.compute import Compute
from training.continuing import STEPS, only_surfaces_differ, with_surfaces_of
from training.loop import build
from training.plan import ModelRef, Plan
from training.run import train

CPU = Compute(torch.device("cpu"))
OLD = ("feed", "story")
MORE = ("reels", "story", "feed")


def ran(plan: Plan, **changes: Any) -> Path:
    return train(replace(plan, **changes), CPU, lambda line: None)


def ref(folder: Path) -> ModelRef:
    return ModelRef(str(folder), checkpoint.manifest_of(folder)["digest"])


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return dcp_json.full_tensors(folder / checkpoint.TENSORS)


def scores(folder: Path, day: str, role: str) -> np.ndarray:
    rows = pq.read_table(folder / checkpoint.PREDICTIONS).to_pandas()
    rows = rows[(rows.scored_ds == day) & (rows.role == role)]
    found: np.ndarray = rows.sort_values(["ds", "impression_id", "task"]).prediction.to_numpy()
    return found


def with_reels(plan: Plan, days: tuple[str, ...]) -> None:
    """Let every fourth row of these days be of the new surface."""
    for day in days:
        path = plan.examples[day].paths[0]
        data = pq.read_table(path)
        names = np.array(data.column("surface").to_pylist(), dtype=object)
        names[3::4] = "reels"
        place = data.column_names.index("surface")
        pq.write_table(data.set_column(place, "surface", pa.array(names.tolist())), path)


@pytest.fixture
def half(plan: Plan, tmp_path: Path) -> Path:
    """The model of the first two walked days."""
    return ran(plan, walk=plan.walk[:2], partition=plan.walk[2], output=str(tmp_path / "half"))


def test_only_more_surfaces_and_another_order_of_them_continue() -> None:
    old = schema()
    buy = old.tasks[1]
    on_new = replace(buy, surfaces=("reels", "feed"))
    on_old = replace(buy, surfaces=("story", "feed"))
    more = replace(old, surfaces=MORE)
    assert only_surfaces_differ(old, old) and only_surfaces_differ(old, more)
    assert only_surfaces_differ(old, replace(more, tasks=(old.tasks[0], on_new)))
    refused = (
        replace(old, surfaces=("feed", "reels")),
        replace(more, tasks=(old.tasks[0], on_old)),
        replace(more, tasks=(*old.tasks, TaskSpec("like", surfaces=("reels",)))),
        replace(more, tables=old.tables | {"ad": 256}),
        replace(more, event_types=("buy", "click")),
    )
    for changed in refused:
        assert not only_surfaces_differ(old, changed)
    assert with_surfaces_of(old, more).surfaces == (*OLD, "reels")


def test_rows_follow_their_surfaces_and_new_ones_start_cold(plan: Plan, half: Path) -> None:
    wide = replace(plan.schema, surfaces=MORE)
    built = build(wide, plan.recipe, plan.seed, CPU).tensors()
    before, found = tensors(half), tensors(ran(plan, schema=wide, walk=(), parent=ref(half)))
    assert before[STEPS].min() > 0
    by_name = {name: tensor for name, tensor in found.items() if tensor.shape != before[name].shape}
    assert {"model.trunk.experts.own_weight", "model.heads.bias.weight", "model.candidates.surface.weight"} < set(
        by_name
    )
    for name, tensor in found.items():
        if name not in by_name:
            assert torch.equal(tensor, before[name]), name
            continue
        for surface in OLD:
            assert torch.equal(tensor[MORE.index(surface)], before[name][OLD.index(surface)]), name
        new = tensor[MORE.index("reels")]
        if "trunk.experts." in name and "exp_avg" not in name and "seen" not in name:
            assert torch.equal(new, built[name][MORE.index("reels")]), name
        elif (name.startswith("model.") and "seen" not in name) or name.endswith(".trained"):
            torch.testing.assert_close(new, before[name].mean(0))
        else:
            assert not new.any(), name


def test_known_surfaces_are_scored_as_before(plan: Plan, half: Path, tmp_path: Path) -> None:
    same = ran(plan, walk=(), parent=ref(half), output=str(tmp_path / "same"))
    for surfaces in (OLD[::-1], MORE):
        changed = replace(plan.schema, surfaces=surfaces)
        other = ran(plan, schema=changed, walk=(), parent=ref(half), output=str(tmp_path / surfaces[0]))
        np.testing.assert_allclose(
            scores(other, plan.partition, "candidate"), scores(same, plan.partition, "candidate"), rtol=1e-5
        )


def test_a_world_with_a_new_surface_goes_on_from_its_parent_beside_its_incumbent(
    plan: Plan, half: Path, tmp_path: Path
) -> None:
    day = plan.walk[2]
    with_reels(plan, (day, plan.partition))
    wide = replace(plan.schema, surfaces=MORE)
    still = ran(plan, schema=wide, walk=(), parent=ref(half), output=str(tmp_path / "still"))
    folder = ran(plan, schema=wide, walk=(day,), parent=ref(half), incumbent=ref(half))
    gate = scores(folder, plan.partition, "incumbent")
    np.testing.assert_allclose(gate, scores(still, plan.partition, "candidate"), rtol=1e-5)
    reels = MORE.index("reels")
    assert not tensors(still)["model.trunk.experts.seen"][reels]
    assert tensors(folder)["model.trunk.experts.seen"].all() and tensors(folder)[STEPS][reels] > 0
    assert checkpoint.manifest_of(folder)["base_rates"].items() >= checkpoint.manifest_of(half)["base_rates"].items()
    lost: FeatureSchema = replace(plan.schema, surfaces=("feed",))
    with pytest.raises(GemlineError, match="another schema; start cold"):
        ran(plan, schema=lost, walk=(), parent=ref(half))
