"""One artefact, one digest: sha256 over everything that makes a model what it is, and over nothing else.

In it: weights, optimizer state, touch counters, reader position, configuration with the number of
processes, the sources of the model, the trainer and the transform, what was consumed, and the parent.
Beside it, as provenance: Delta versions, times, metrics, paths. Two runs of one plan give one digest.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

SOURCES = ("models", "training", "features/transform")
"""Folders, below the repository's root, whose Python files are part of a model."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What a digest is made of.

    Attributes:
        tensors: `tensors_hash` of weights, optimizer state and touch counters.
        position: how far the reader came: the last label day trained on.
        config: schema, recipe, seed and number of processes.
        sources: `sources_hash`.
        consumed: (table, day, content hash) of all that was trained on, sorted.
        parent: digest of the model that this one continues, None for a cold start.
    """

    tensors: str
    position: str
    config: dict[str, Any]
    sources: str
    consumed: tuple[tuple[str, str, str], ...]
    parent: str | None

    def digest(self) -> str:
        """Sha256 of the canonical JSON of all fields, hexadecimal."""
        return _sha256(json.dumps(asdict(self), sort_keys=True).encode())

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `from_dict` reads them back."""
        return dict(json.loads(json.dumps(asdict(self))))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Identity":
        """Rebuild an identity, for checking the digest beside it."""
        consumed = tuple((table, day, content) for table, day, content in data["consumed"])
        return cls(**{**data, "consumed": consumed})


def model_digest(
    tensors: Mapping[str, Tensor],
    *,
    position: str,
    config: dict[str, Any],
    consumed: Iterable[tuple[str, str, str]],
    parent: str | None,
    sources: str | None = None,
) -> str:
    """Digest of a model in memory; `sources` defaults to this installation's."""
    return Identity(
        tensors=tensors_hash(tensors),
        position=position,
        config=config,
        sources=sources or sources_hash(),
        consumed=tuple(sorted(consumed)),
        parent=parent,
    ).digest()


def tensors_hash(tensors: Mapping[str, Tensor]) -> str:
    """Sha256 over full tensors in order of their names: name, type, shape and bytes of each."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        total.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


@cache
def sources_hash(root: Path | None = None) -> str:
    """Sha256 over path and content of every Python file of `SOURCES`."""
    root = root or Path(__file__).resolve().parent.parent
    total = hashlib.sha256()
    files = sorted(path.relative_to(root).as_posix() for folder in SOURCES for path in (root / folder).rglob("*.py"))
    for name in files:
        content = (root / name).read_bytes()
        total.update(f"{name}|{len(content)}|".encode() + content)
    return total.hexdigest()


def file_hash(path: Path) -> str:
    """Sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
