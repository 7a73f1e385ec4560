"""A frozen model on disk: safetensors beside a manifest, there whole or not at all; no pickle is read or written.

`<folder>/{dense,tables,...}.safetensors, manifest.json`. The manifest names the hash of every other file and, by
`digest`, everything in the folder. A folder is written beside its place and renamed into it, so a reader never
sees half of one, and it is never changed afterwards.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

MANIFEST = "manifest.json"
FORMAT = 1
DAMAGED = "damaged"
"""Starts the name of a folder that was moved aside."""


class ArtefactError(ValueError):
    """A folder that is no frozen model, or not the one that was written."""


def digest_of(manifest: Mapping[str, Any]) -> str:
    """Sha256 of the canonical JSON of a manifest without its digest; it covers every file through their hashes."""
    content = {key: value for key, value in manifest.items() if key != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write(folder: Path, manifest: Mapping[str, Any], tensors: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Any]:
    """Write a folder; one that holds the same digest already stays as it is, a damaged one is moved aside.

    Args:
        folder: where it shall be.
        manifest: plain JSON values; `format`, `files` and `digest` are added.
        tensors: file name without ending -> tensors by name.

    Returns:
        The complete manifest.

    Raises:
        ArtefactError: the folder holds another model, whole.
    """
    staged = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    try:
        for name, named in tensors.items():
            save_file(
                {key: value.detach().cpu().contiguous().clone() for key, value in named.items()}, _file(staged, name)
            )
        files = {path.name: _hash(path) for path in sorted(staged.iterdir())}
        whole = {**json.loads(json.dumps(dict(manifest))), "format": FORMAT, "files": files}
        whole["digest"] = digest_of(whole)
        (staged / MANIFEST).write_text(json.dumps(whole, indent=1, sort_keys=True), encoding="utf-8")
        held = _held(folder)
        if held is None:
            staged.rename(folder)
        elif held != whole["digest"]:
            raise ArtefactError(f"{folder} holds another model already; artefacts are never changed")
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return whole


def read_manifest(folder: Path, digest: str | None = None) -> dict[str, Any]:
    """The manifest, after checking that every file is what was written.

    Raises:
        ArtefactError: a file missing, added, cut short or altered, or another digest than asked for.
    """
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files, kept = manifest["files"], manifest["digest"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtefactError(f"{folder} holds no readable {MANIFEST} ({error!r})") from None
    if manifest.get("format") != FORMAT:
        raise ArtefactError(f"{folder} has format {manifest.get('format')}; this code reads {FORMAT}")
    if digest_of(manifest) != kept:
        raise ArtefactError(f"{folder}: {MANIFEST} was altered")
    if digest is not None and kept != digest:
        raise ArtefactError(f"{folder} has digest {kept[:12]}, asked for was {digest[:12]}")
    present = {path.name for path in folder.iterdir()} - {MANIFEST}
    for name in sorted(set(files) | present):
        if name not in present or name not in files or _hash(folder / name) != files[name]:
            raise ArtefactError(f"{folder}: {name} is missing, altered or not in the manifest")
    return manifest


def read_tensors(folder: Path, name: str) -> dict[str, Tensor]:
    """Tensors of one file of a folder that `read_manifest` has checked.

    Raises:
        ArtefactError: it is no safetensors file.
    """
    try:
        return load_file(_file(folder, name))
    except (OSError, SafetensorError) as error:
        raise ArtefactError(f"{folder}: {name} is no safetensors file ({error})") from None


def _held(folder: Path) -> str | None:
    """Digest of what a folder holds; a damaged one is moved aside, as nothing can read it, and holds nothing."""
    if not folder.exists():
        return None
    try:
        return str(read_manifest(folder)["digest"])
    except ArtefactError:
        number = sum(1 for _ in folder.parent.glob(f"{DAMAGED}-{folder.name}-*")) + 1
        folder.rename(folder.with_name(f"{DAMAGED}-{folder.name}-{number}"))
        return None


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.safetensors"


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
