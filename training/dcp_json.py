"""torch.distributed.checkpoint with its index as JSON: the stock index is a pickle, and none is loaded here.

The tensors are as DCP writes them (`torch.save` records, read back with `weights_only=True`), so saving at
one number of processes and loading at another works as in stock DCP. Only tensors can be in such a
checkpoint.
"""

import json
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.storage import WriteResult

from features.errors import GemlineError

INDEX = "metadata.json"
"""The file that names every tensor and where its parts lie."""

_KINDS = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.bool)
_DTYPES = {str(dtype): dtype for dtype in _KINDS}


class JsonWriter(dcp.FileSystemWriter):
    """DCP's file writer with a JSON index."""

    def _get_metadata_path(self, rank: int | None = None) -> os.PathLike:
        return Path(self.path) / INDEX

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the index, last and atomically."""
        parts = {result.index: result.storage_data for part in results for result in part}
        data = {"tensors": _tensors_to_json(metadata), "parts": _parts_to_json(parts)}
        write_atomically(Path(self.path) / INDEX, json.dumps(data, indent=0, sort_keys=True))


class JsonReader(dcp.FileSystemReader):
    """DCP's file reader with a JSON index."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Read the index.

        Raises:
            GemlineError: it is missing or malformed, or names a file outside the checkpoint's folder.
        """
        path = Path(self.path) / INDEX
        try:
            data = json.loads(path.read_text())
            return Metadata(
                state_dict_metadata={name: _tensor_meta(entry) for name, entry in data["tensors"].items()},
                planner_data={name: (name,) for name in data["tensors"]},
                storage_data=dict(_part_of(entry) for entry in data["parts"]),
                storage_meta=StorageMeta(load_id=self.load_id),
            )
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise GemlineError(
                f"the checkpoint index {path} cannot be read ({error!r}); train that model again"
            ) from error


def save(state: dict[str, Any], folder: Path) -> None:
    """Write tensors and sharded tensors; with a process group all its ranks must call this together."""
    dcp.save(state, storage_writer=JsonWriter(folder, single_file_per_rank=True))


def load(state: dict[str, Any], folder: Path) -> None:
    """Fill tensors and sharded tensors in place, resharding as needed; ranks call this together.

    Raises:
        GemlineError: the checkpoint lacks a tensor or holds it in another shape.
    """
    held = full_shapes(folder)
    for name, tensor in state.items():
        if name not in held or held[name] != tuple(tensor.size()):
            raise GemlineError(
                f"the checkpoint {folder} holds {name} as {held.get(name, 'nothing')}, the model needs "
                f"{tuple(tensor.size())}; it was trained with another schema or recipe: start cold"
            )
    _read(state, folder)


def full_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Name to full shape of every tensor in a checkpoint."""
    metadata = JsonReader(folder).read_metadata()
    return {name: tuple(entry.size) for name, entry in _entries(metadata).items()}


def full_tensors(folder: Path, prefix: str = "") -> dict[str, Tensor]:
    """Tensors of a checkpoint in one process, unsharded; needs no process group and joins none.

    Args:
        folder: where they lie.
        prefix: of the names that are read; all when left out.
    """
    found = _entries(JsonReader(folder).read_metadata())
    state = {
        name: torch.empty(entry.size, dtype=entry.properties.dtype)
        for name, entry in found.items()
        if name.startswith(prefix)
    }
    _read(state, folder, no_dist=True)
    return state


def _read(state: dict[str, Any], folder: Path, no_dist: bool = False) -> None:
    try:
        dcp.load(state, storage_reader=JsonReader(folder), no_dist=no_dist)
    except CheckpointException as error:  # no Exception in torch, so nobody else would catch it
        reasons = {f"rank {rank}: {failure[0]!r}" for rank, failure in error.failures.items()}
        raise GemlineError(
            f"the checkpoint {folder} cannot be read ({'; '.join(sorted(reasons))}); train that model again"
        ) from error


def write_atomically(path: Path, text: str) -> None:
    """Replace a file so that it is there whole or not at all, also after a power cut."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _tensors_to_json(metadata: Metadata) -> dict[str, Any]:
    found = {}
    for name, entry in _entries(metadata).items():
        chunks = [[list(chunk.offsets), list(chunk.sizes)] for chunk in entry.chunks]
        found[name] = {"dtype": str(entry.properties.dtype), "size": list(entry.size), "chunks": chunks}
    return found


def _entries(metadata: Metadata) -> dict[str, TensorStorageMetadata]:
    found = {}
    for name, entry in metadata.state_dict_metadata.items():
        if not isinstance(entry, TensorStorageMetadata):
            raise GemlineError(f"checkpoint entry {name} is no tensor; keep settings in the manifest")
        found[name] = entry
    return found


def _parts_to_json(parts: dict[MetadataIndex, _StorageInfo]) -> list[dict[str, Any]]:
    listed = [
        {
            "name": index.fqn,
            "at": None if index.offset is None else list(index.offset),
            "index": index.index,
            "file": info.relative_path,
            "offset": info.offset,
            "length": info.length,
        }
        for index, info in parts.items()
    ]
    return sorted(listed, key=lambda entry: (entry["name"], entry["at"] or []))


def _tensor_meta(entry: dict[str, Any]) -> TensorStorageMetadata:
    chunks = [ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes)) for offsets, sizes in entry["chunks"]]
    properties = TensorProperties(dtype=_DTYPES[entry["dtype"]])
    return TensorStorageMetadata(properties, torch.Size(entry["size"]), chunks)


def _part_of(entry: dict[str, Any]) -> tuple[MetadataIndex, _StorageInfo]:
    if Path(entry["file"]).name != entry["file"]:
        raise ValueError(f"'{entry['file']}' is not a plain file name")
    index = MetadataIndex(entry["name"], entry["at"], entry["index"])
    return index, _StorageInfo(entry["file"], entry["offset"], entry["length"])
