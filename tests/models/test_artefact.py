"""A frozen model on disk is there whole or not at all, and nothing but what was written is ever read."""

import json
from pathlib import Path

import pytest
import torch

from models import artefact

TENSORS = {"dense": {"a.weight": torch.arange(6.0).view(2, 3)}, "tables": {"t": torch.zeros(4, 2)}}


def test_round_trip_and_the_same_again(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "one"
    first = artefact.write(folder, {"kind": "x", "n": 1}, TENSORS)
    assert artefact.write(folder, {"kind": "x", "n": 1}, TENSORS) == first == artefact.read_manifest(folder)
    assert torch.equal(artefact.read_tensors(folder, "dense")["a.weight"], TENSORS["dense"]["a.weight"])
    assert [path.name for path in folder.parent.iterdir()] == ["one"]


def test_what_is_there_is_never_changed(tmp_path: Path) -> None:
    artefact.write(tmp_path / "one", {"n": 1}, TENSORS)
    with pytest.raises(artefact.ArtefactError, match="another model"):
        artefact.write(tmp_path / "one", {"n": 2}, TENSORS)
    assert artefact.read_manifest(tmp_path / "one")["n"] == 1


FAULTS = ["cut", "altered", "missing", "added", "manifest", "pickle"]


def spoil(folder: Path, fault: str) -> None:
    file = folder / "dense.safetensors"
    if fault == "cut":
        file.write_bytes(file.read_bytes()[:-4])
    elif fault == "altered":
        file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    elif fault == "missing":
        file.unlink()
    elif fault == "added":
        (folder / "more.bin").write_bytes(b"x")
    elif fault == "manifest":
        manifest = json.loads((folder / artefact.MANIFEST).read_text())
        (folder / artefact.MANIFEST).write_text(json.dumps({**manifest, "n": 2}))
    elif fault == "pickle":
        torch.save({"a": torch.zeros(1)}, file)


@pytest.mark.parametrize("fault", [*FAULTS, "digest"])
def test_a_faulty_folder_is_refused(tmp_path: Path, fault: str) -> None:
    folder = tmp_path / "one"
    artefact.write(folder, {"n": 1}, TENSORS)
    spoil(folder, fault)
    with pytest.raises(artefact.ArtefactError):
        artefact.read_manifest(folder, "0" * 64 if fault == "digest" else None)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_folder_is_moved_aside_by_the_next_write(tmp_path: Path, fault: str) -> None:
    folder = tmp_path / "one"
    written = artefact.write(folder, {"n": 1}, TENSORS)
    for number in (1, 2):
        spoil(folder, fault)
        assert artefact.write(folder, {"n": 1}, TENSORS) == written == artefact.read_manifest(folder)
        aside = {path.name for path in tmp_path.iterdir()} - {"one"}
        assert aside == {f"damaged-one-{place}" for place in range(1, number + 1)}
