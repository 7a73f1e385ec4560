"""A package gives the trainer's own probabilities, or it is not written (B24)."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from models import artefact
from models.layers.tables import TABLES_PREFIX
from serving import export as exporting
from serving.export import export
from serving.package import PARITY, PackageError, load_package, require_parity, unpack_inputs
from tests.training.verticals.conftest import make_vertical_plan
from training import checkpoint
from training.compute import Compute
from training.plan import ModelRef, Plan
from training.run import train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelRef, Plan]:
    """A vertical that was trained once."""
    plan = make_vertical_plan(tmp_path_factory.mktemp("trained"))
    folder = train(plan, Compute.alone(), lambda line: None)
    return ModelRef(str(folder), checkpoint.manifest_of(folder)["digest"]), plan


def test_the_package_gives_the_trainers_probabilities(trained: tuple[ModelRef, Plan], tmp_path: Path) -> None:
    done = export(*trained, tmp_path / "packages")
    assert 0 <= done.difference <= PARITY
    loaded = load_package(done.folder, done.manifest["digest"])
    raw, expected = unpack_inputs(artefact.read_tensors(done.folder, "parity"), loaded.manifest["surfaces"])
    assert len(expected) > 50
    # the control: these rows do differ, so that equality says something
    assert expected.std(axis=0).min() > 1e-4
    np.testing.assert_allclose(loaded.score(*loaded.inputs(raw)), expected, atol=PARITY)
    assert export(*trained, tmp_path / "packages").manifest == done.manifest
    assert loaded.manifest["generation"] == trained[1].transfer.generation.name


def test_column_order_and_unknown_columns_mean_nothing(trained: tuple[ModelRef, Plan], tmp_path: Path) -> None:
    loaded = load_package(export(*trained, tmp_path).folder)
    raw, expected = unpack_inputs(
        artefact.read_tensors(next(tmp_path.iterdir()), "parity"), loaded.manifest["surfaces"]
    )
    for names in (sorted(raw.columns), sorted(raw.columns, reverse=True)):
        shuffled = {name: raw.columns[name] for name in names} | {"unknown": raw.columns["user_id"]}
        other = type(raw)(shuffled, raw.day, raw.histories, raw.memory, raw.precomputed)
        np.testing.assert_allclose(loaded.score(*loaded.inputs(other)), expected, atol=PARITY)


def test_a_lost_parameter_stops_the_export(
    trained: tuple[ModelRef, Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = checkpoint.full_tensors

    def without(ref: ModelRef) -> dict[str, torch.Tensor]:
        return {name: value for name, value in whole(ref).items() if name != "model.heads.tasks.bias"}

    monkeypatch.setattr(exporting.checkpoint, "full_tensors", without)
    with pytest.raises(PackageError, match=r"heads\.tasks\.bias"):
        export(*trained, tmp_path / "packages")
    assert not (tmp_path / "packages").exists()


def test_other_weights_stop_the_export(
    trained: tuple[ModelRef, Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = checkpoint.full_tensors

    def shifted(ref: ModelRef) -> dict[str, torch.Tensor]:
        found = whole(ref)
        return found | {"model.heads.tasks.bias": found["model.heads.tasks.bias"] + 1e-3}

    monkeypatch.setattr(exporting.checkpoint, "full_tensors", shifted)
    with pytest.raises(PackageError, match="away from its trainer"):
        export(*trained, tmp_path / "packages")
    assert not (tmp_path / "packages").exists()


def test_untrained_rows_are_the_default(trained: tuple[ModelRef, Plan], tmp_path: Path) -> None:
    done = export(*trained, tmp_path)
    counts = checkpoint.full_tensors(trained[0])
    for name, rows in artefact.read_tensors(done.folder, "tables").items():
        table = name.removeprefix(f"{TABLES_PREFIX}embeddings.").removesuffix(".weight")
        untouched = counts[f"touches.{table}"] == 0
        assert not rows[untouched].any()
        assert done.manifest["untrained_rows"][table] == int(untouched.sum())


def test_a_package_that_was_altered_is_not_served(trained: tuple[ModelRef, Plan], tmp_path: Path) -> None:
    done = export(*trained, tmp_path)
    with pytest.raises(PackageError, match="asked for was"):
        load_package(done.folder, "0" * 64)
    manifest = json.loads((done.folder / "manifest.json").read_text())
    (done.folder / "manifest.json").write_text(json.dumps({**manifest, "memory_length": 1}))
    with pytest.raises(PackageError, match="altered"):
        load_package(done.folder)


def test_code_that_scores_differently_does_not_serve_an_old_package(
    trained: tuple[ModelRef, Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = export(*trained, tmp_path)
    from features.transform import dense

    monkeypatch.setitem(dense.TRANSFORMS, "count", np.sqrt)
    with pytest.raises(PackageError, match="train and export again"):
        load_package(done.folder)


def test_edited_sources_change_no_package(
    trained: tuple[ModelRef, Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Edited code that scores the same gives the same package, in its place and in an empty one."""
    done = export(*trained, tmp_path / "one")
    from training import digest

    monkeypatch.setattr(digest, "sources_hash", lambda: "edited")
    monkeypatch.setattr(exporting, "sources_hash", lambda: "edited", raising=False)
    assert export(*trained, tmp_path / "two").manifest == done.manifest
    # a package with another manifest, as earlier code wrote them, is as good as long as it is right
    manifest = {key: value for key, value in done.manifest.items() if key not in ("digest", "files", "format")}
    tensors = {name: artefact.read_tensors(done.folder, name) for name in ("dense", "tables", "parity")}
    older = artefact.write(tmp_path / "three" / done.folder.name, {**manifest, "sources": "older"}, tensors)
    again = export(*trained, tmp_path / "three")
    assert (again.manifest, again.difference <= PARITY) == (older, True)


def test_a_damaged_package_is_exported_again(trained: tuple[ModelRef, Plan], tmp_path: Path) -> None:
    done = export(*trained, tmp_path)
    file = done.folder / "tables.safetensors"
    file.write_bytes(file.read_bytes()[:-4])
    again = export(*trained, tmp_path)
    assert (again.folder, again.manifest) == (done.folder, done.manifest)
    assert load_package(again.folder, done.manifest["digest"]).manifest == done.manifest


def test_parity_needs_rows(trained: tuple[ModelRef, Plan], tmp_path: Path) -> None:
    loaded = load_package(export(*trained, tmp_path).folder)
    stored = artefact.read_tensors(next(tmp_path.iterdir()), "parity")
    empty = {name: value[:0] if name in ("probability",) else value for name, value in stored.items()}
    with pytest.raises(PackageError, match="no parity rows"):
        require_parity(loaded, empty)
