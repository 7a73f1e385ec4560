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


@pytest.mark.parametrize("fault", ["cut", "altered", "missing", "added", "manifest", "digest", "pickle"])
def test_a_faulty_folder_is_refused(tmp_path: Path, fault: str) -> None:
    folder = tmp_path / "one"
    written = artefact.write(folder, {"n": 1}, TENSORS)
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
        (folder / artefact.MANIFEST).write_text(json.dumps({**written, "n": 2}))
    elif fault == "pickle":
        torch.save({"a": torch.zeros(1)}, file)
    with pytest.raises(artefact.ArtefactError):
        artefact.read_manifest(folder, "0" * 64 if fault == "digest" else None)
