"""Checkpoints that are there whole or not at all, and that only the newest run may commit.

`<output>/attempt-<token>/{dcp/, manifest.json, predictions.parquet, COMMITTED}`. A run takes the next token
(a fencing token): once a newer run has begun, an older one that is still alive can write into its own
folder but never commit. COMMITTED is written last and holds the manifest's hash; the manifest holds the
hash of every other file. A folder that fails any of this is never loaded, and no pickle is loaded from any.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from torch import Tensor

from features.errors import GemlineError
from training import dcp_json
from training.dcp_json import write_atomically
from training.digest import Identity, file_hash, tensors_hash
from training.plan import ModelRef

TENSORS = "dcp"
MANIFEST = "manifest.json"
COMMITTED = "COMMITTED"
PREDICTIONS = "predictions.parquet"
_PREFIX = "attempt-"


class CheckpointError(GemlineError):
    """A checkpoint is incomplete, altered, or not this run's to commit."""


@dataclass(frozen=True)
class Attempt:
    """One run's folder and its token; a larger token is a newer run."""

    output: Path
    token: int

    @property
    def folder(self) -> Path:
        """Where this run writes."""
        return self.output / f"{_PREFIX}{self.token:06d}"

    @property
    def tensors(self) -> Path:
        """Where DCP writes."""
        return self.folder / TENSORS


def begin(output: Path) -> Attempt:
    """Take the next token and make its folder; from now on no older attempt can commit."""
    output.mkdir(parents=True, exist_ok=True)
    with _lock(output):
        attempt = Attempt(output, max((old.token for old in _attempts(output)), default=0) + 1)
        attempt.folder.mkdir()
    return attempt


def commit(attempt: Attempt, manifest: dict[str, Any]) -> None:
    """Write the manifest, then the marker; older attempts that never committed are removed.

    Args:
        attempt: whose tensors are saved.
        manifest: must hold `digest`; `files` (hash of each file) is added.

    Raises:
        CheckpointError: a newer attempt has begun, so this run is no longer the one to commit.
    """
    files = {path.relative_to(attempt.folder).as_posix(): file_hash(path) for path in _content(attempt.folder)}
    with _lock(attempt.output):
        newest = max(old.token for old in _attempts(attempt.output))
        if newest != attempt.token:
            raise CheckpointError(
                f"{attempt.folder}: a newer run (attempt {newest}) has begun, so this one does not commit; "
                "let the newer one end"
            )
        write_atomically(attempt.folder / MANIFEST, json.dumps({**manifest, "files": files}, indent=1))
        marker = {"digest": manifest["digest"], "manifest": file_hash(attempt.folder / MANIFEST)}
        write_atomically(attempt.folder / COMMITTED, json.dumps(marker))
        for old in _attempts(attempt.output):
            if old.token < attempt.token and not (old.folder / COMMITTED).exists():
                shutil.rmtree(old.folder, ignore_errors=True)


def newest(output: Path) -> Path | None:
    """Folder of the newest committed attempt of a model and day; None when none has committed."""
    found = [attempt for attempt in _attempts(output) if (attempt.folder / COMMITTED).exists()]
    return max(found, key=lambda attempt: attempt.token).folder if found else None


def manifest_of(folder: Path, digest: str | None = None) -> dict[str, Any]:
    """Manifest of a committed checkpoint, after checking every file against it.

    Args:
        folder: the attempt's folder.
        digest: what it must be, for example from the decisions ledger.

    Raises:
        CheckpointError: no marker, a file missing, cut short or altered, or another digest.
    """
    manifest = _marked_manifest(folder)
    wanted = manifest["files"]
    present = {path.relative_to(folder).as_posix() for path in _content(folder)}
    for name in sorted(set(wanted) | present):
        if name not in present or name not in wanted:
            raise _refused(folder, f"{name} is {'missing' if name in wanted else 'not in the manifest'}")
        if file_hash(folder / name) != wanted[name]:
            raise _refused(folder, f"{name} is not what was committed (cut short or altered)")
    identity = Identity.from_dict(manifest["identity"])
    if identity.digest() != manifest["digest"]:
        raise _refused(folder, "the manifest's digest does not follow from what it lists")
    if digest is not None and manifest["digest"] != digest:
        raise _refused(folder, f"its digest is {manifest['digest'][:12]}, asked for was {digest[:12]}")
    return manifest


def verified(ref: ModelRef) -> dict[str, Any]:
    """Manifest of the model that a plan names, after hashing its tensors: the digest covers what is loaded.

    Raises:
        CheckpointError: as `manifest_of`, or the tensors are not those of the digest.
    """
    folder = Path(ref.path)
    manifest = manifest_of(folder, ref.digest)
    if tensors_hash(dcp_json.full_tensors(folder / TENSORS)) != manifest["identity"]["tensors"]:
        raise _refused(folder, "its tensors are not those of its digest")
    return manifest


def full_tensors(ref: ModelRef, prefix: str = "") -> dict[str, Tensor]:
    """Tensors of a verified checkpoint whose names begin so, unsharded, in one process."""
    return dcp_json.full_tensors(Path(ref.path) / TENSORS, prefix)


def save(state: dict[str, Any], attempt: Attempt) -> None:
    """Write the tensors of a run; all ranks together. They are not a checkpoint until `commit`."""
    dcp_json.save(state, attempt.tensors)


def load(state: dict[str, Any], folder: Path) -> None:
    """Fill a state from a checkpoint that `verified` or `manifest_of` has checked; all ranks together."""
    dcp_json.load(state, folder / TENSORS)


def _marked_manifest(folder: Path) -> dict[str, Any]:
    marker = folder / COMMITTED
    if not marker.exists():
        raise _refused(folder, f"it has no {COMMITTED} marker, so the run that wrote it did not end")
    try:
        expected = json.loads(marker.read_text())["manifest"]
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError, KeyError) as error:
        raise _refused(folder, f"its marker or manifest cannot be read ({error!r})") from error
    if file_hash(folder / MANIFEST) != expected:
        raise _refused(folder, f"{MANIFEST} is not what was committed (cut short or altered)")
    return manifest


def _refused(folder: Path, why: str) -> CheckpointError:
    return CheckpointError(f"checkpoint {folder} is not loaded: {why}; use an older model or train its day again")


def _content(folder: Path) -> list[Path]:
    bookkeeping = {MANIFEST, COMMITTED}
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in bookkeeping)


def _attempts(output: Path) -> list[Attempt]:
    tokens = [path.name.removeprefix(_PREFIX) for path in output.glob(f"{_PREFIX}*") if path.is_dir()]
    return [Attempt(output, int(token)) for token in tokens if token.isdigit()]


def _lock(output: Path) -> FileLock:
    return FileLock(output / "attempts.lock", timeout=60)
