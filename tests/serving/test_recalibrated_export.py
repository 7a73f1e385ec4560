"""A package of a recalibrated model answers with the probabilities that its trainer gave, and its funnel holds."""

import numpy as np
import pytest
import torch

from models import artefact
from models.funnel import unconditional
from serving.export import Exported, export
from serving.package import PARITY, PackageError, load_package, require_parity, served_model, unpack_inputs
from tests.training.verticals.conftest import make_vertical_plan
from training import checkpoint, logit_sums
from training.compute import Compute
from training.plan import ModelRef
from training.run import train

TENSORS = ("dense", "tables", "parity")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """The package of a vertical that was recalibrated on some dozens of positives."""
    root = tmp_path_factory.mktemp("recalibrated")
    plan = make_vertical_plan(root)
    plan = make_vertical_plan(root, recipe=plan.recipe.derive({"recalibrate": True}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logit_sums, "MIN_ROWS", 10)
        folder = train(plan, Compute.alone(), lambda line: None)
    return export(ModelRef(str(folder), checkpoint.manifest_of(folder)["digest"]), plan, root / "packages")


def test_the_package_gives_the_trainers_calibrated_probabilities(done: Exported) -> None:
    loaded = load_package(done.folder, done.manifest["digest"])
    told = loaded.manifest["recalibration"]["click"]["surfaces"]["feed"]
    assert told["level"] == "own" and abs(told["slope"] - 1) + abs(told["offset"]) > 0.05
    raw, expected = unpack_inputs(artefact.read_tensors(done.folder, "parity"), loaded.manifest["surfaces"])
    inputs = loaded.inputs(raw)
    np.testing.assert_allclose(loaded.score(*inputs), expected, atol=PARITY)
    # the line lies on the conditional logit, before the product
    with torch.no_grad():
        logits = loaded.model(*inputs).served.double().numpy()
    by_hand = 1 / (1 + np.exp(-(told["slope"] * logits[:, 0] + told["offset"])))
    np.testing.assert_allclose(loaded.score(*inputs)[:, 0], by_hand, rtol=1e-12)
    assert np.abs(by_hand - 1 / (1 + np.exp(-logits[:, 0]))).max() > 0.01
    answered = loaded.unconditional(loaded.score(*inputs), inputs[0])
    product = unconditional(torch.from_numpy(loaded.score(*inputs)), inputs[0].surface, loaded.parents).numpy()
    np.testing.assert_array_equal(answered, product)
    np.testing.assert_allclose(answered[:, 1], by_hand * loaded.score(*inputs)[:, 1], rtol=1e-12)


@pytest.mark.parametrize("how", ["left out", "moved"])
def test_a_package_without_the_lines_or_with_others_is_refused(done: Exported, how: str) -> None:
    manifest = {name: value for name, value in done.manifest.items() if name != "recalibration"}
    if how == "moved":
        told = done.manifest["recalibration"]
        feed = told["click"]["surfaces"]["feed"]
        moved = {**told["click"], "surfaces": {"feed": {**feed, "offset": feed["offset"] + 1e-3}}}
        manifest["recalibration"] = {**told, "click": moved}
    dense, tables, parity = (artefact.read_tensors(done.folder, name) for name in TENSORS)
    with pytest.raises(PackageError, match="away from its trainer"):
        require_parity(served_model(manifest, dense, tables), parity)
