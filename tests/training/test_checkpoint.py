"""Checkpoints: whole or not at all, committed by the newest run alone, free of pickles."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from features.errors import GemlineError
from training import checkpoint, dcp_json
from training.checkpoint import CheckpointError
from training.digest import Identity, tensors_hash
from training.plan import ModelRef

STATE = {
    "model.w": torch.arange(12.0).reshape(4, 3),
    "dense_optim.steps": torch.tensor(5),
    "touches.ad": torch.arange(4),
}


def manifest(state: dict[str, torch.Tensor]) -> dict[str, Any]:
    identity = Identity(
        tensors=tensors_hash(state), position="2024-05-01", config={}, sources="s", consumed=(), parent=None
    )
    return {"digest": identity.digest(), "identity": identity.to_dict()}


def committed(output: Path) -> checkpoint.Attempt:
    attempt = checkpoint.begin(output)
    checkpoint.save(STATE, attempt)
    (attempt.folder / checkpoint.PREDICTIONS).write_text("rows")
    checkpoint.commit(attempt, manifest(STATE))
    return attempt


def ref(attempt: checkpoint.Attempt) -> ModelRef:
    return ModelRef(str(attempt.folder), manifest(STATE)["digest"])


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    attempt = committed(tmp_path / "day")
    assert checkpoint.newest(tmp_path / "day") == attempt.folder
    assert checkpoint.verified(ref(attempt))["digest"] == ref(attempt).digest
    empty = {name: torch.zeros_like(tensor) for name, tensor in STATE.items()}
    checkpoint.load(empty, attempt.folder)
    for name, tensor in STATE.items():
        assert torch.equal(empty[name], tensor), name


def test_a_run_that_was_cut_short_is_never_the_newest(tmp_path: Path) -> None:
    first = committed(tmp_path)
    second = checkpoint.begin(tmp_path)
    checkpoint.save(STATE, second)
    assert checkpoint.newest(tmp_path) == first.folder
    with pytest.raises(CheckpointError, match="no COMMITTED marker"):
        checkpoint.manifest_of(second.folder)


def test_an_older_run_cannot_commit_after_a_newer_began(tmp_path: Path) -> None:
    older, newer = checkpoint.begin(tmp_path), checkpoint.begin(tmp_path)
    for attempt in (older, newer):
        checkpoint.save(STATE, attempt)
    with pytest.raises(CheckpointError, match="a newer run"):
        checkpoint.commit(older, manifest(STATE))
    assert checkpoint.newest(tmp_path) is None
    checkpoint.commit(newer, manifest(STATE))
    assert checkpoint.newest(tmp_path) == newer.folder
    assert not older.folder.exists()


def halve(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize(
    "name", ["dcp/*.distcp", "dcp/metadata.json", "manifest.json", "predictions.parquet", "COMMITTED"]
)
@pytest.mark.parametrize("damage", [halve, Path.unlink])
def test_a_damaged_file_is_refused_and_named(tmp_path: Path, name: str, damage: Any) -> None:
    attempt = committed(tmp_path)
    damage(next(attempt.folder.glob(name)))
    with pytest.raises(CheckpointError, match="is not loaded"):
        checkpoint.verified(ref(attempt))


def test_a_foreign_file_or_digest_is_refused(tmp_path: Path) -> None:
    attempt = committed(tmp_path)
    with pytest.raises(CheckpointError, match="asked for was 0000"):
        checkpoint.verified(ModelRef(str(attempt.folder), "0" * 64))
    (attempt.tensors / "more.distcp").write_text("x")
    with pytest.raises(CheckpointError, match=r"more.distcp is not in the manifest"):
        checkpoint.verified(ref(attempt))


def test_tensors_that_are_not_the_digests_are_refused(tmp_path: Path) -> None:
    attempt = checkpoint.begin(tmp_path)
    checkpoint.save(STATE | {"model.w": torch.zeros(4, 3)}, attempt)
    checkpoint.commit(attempt, manifest(STATE))
    with pytest.raises(CheckpointError, match="not those of its digest"):
        checkpoint.verified(ref(attempt))


def test_a_manifest_whose_digest_does_not_follow_is_refused(tmp_path: Path) -> None:
    attempt = checkpoint.begin(tmp_path)
    checkpoint.save(STATE, attempt)
    checkpoint.commit(attempt, manifest(STATE) | {"digest": "f" * 64})
    with pytest.raises(CheckpointError, match="does not follow"):
        checkpoint.manifest_of(attempt.folder)


class Bomb:
    """A pickle of this calls a function when it is loaded."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path("exploded"),))


def test_no_pickle_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    attempt = committed(tmp_path / "day")
    assert not list(attempt.folder.rglob("*.metadata"))
    (attempt.tensors / ".metadata").write_bytes(pickle.dumps(Bomb()))
    assert torch.equal(dcp_json.full_tensors(attempt.tensors)["model.w"], STATE["model.w"])
    data = next(attempt.tensors.glob("*.distcp"))
    torch.save(Bomb(), data)
    index = attempt.tensors / dcp_json.INDEX
    entries = json.loads(index.read_text())
    for part in entries["parts"]:
        part |= {"offset": 0, "length": data.stat().st_size}
    index.write_text(json.dumps(entries))
    with pytest.raises(GemlineError, match=r"(?i)weights.only"):
        dcp_json.full_tensors(attempt.tensors)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "sub/file"])
def test_an_index_cannot_point_outside(tmp_path: Path, name: str) -> None:
    attempt = committed(tmp_path)
    index = attempt.tensors / dcp_json.INDEX
    entries = json.loads(index.read_text())
    entries["parts"][0]["file"] = name
    index.write_text(json.dumps(entries))
    with pytest.raises(GemlineError, match="not a plain file name"):
        dcp_json.full_tensors(attempt.tensors)


def test_another_shape_is_one_sentence(tmp_path: Path) -> None:
    attempt = committed(tmp_path)
    with pytest.raises(GemlineError, match=r"holds model.w as \(4, 3\), the model needs \(5, 3\)"):
        checkpoint.load({"model.w": torch.zeros(5, 3)}, attempt.folder)
