"""A package: everything that scoring with a vertical takes, as an artefact that checks itself when it is loaded.

`models.artefact` with `dense`, `tables` (embedding rows) and `parity`: raw inputs of some rows beside the
probabilities that the trainer gave them. Whoever loads a package lets this code turn these raw inputs into
probabilities again; when they differ, transform or model are not those that were trained, and it is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from features.errors import GemlineError
from features.transform.batch import Batch, build_batch, slice_histories
from features.transform.columns import Column
from features.transform.histories import HistoryCut, HistoryStore
from features.transform.schema import FeatureSchema
from features.transform.transfer import SOURCES, MemoryStore, Precomputed, Transfer, build_transfer
from models import artefact
from models.funnel import parents, unconditional
from models.recalibration import Lines
from models.vertical.config import VerticalConfig
from models.vertical.model import VerticalModel

PARITY = 1e-5
"""Largest difference between a probability of the trainer and one of its package."""
DENSE, TABLES, PARITY_ROWS = "dense", "tables", "parity"


class PackageError(GemlineError):
    """A package is altered, incomplete, or does not give the trainer's probabilities."""


@dataclass(frozen=True)
class RawInputs:
    """What a request and the stores say about B rows, before any transform.

    Attributes:
        columns: feature columns by name, `surface` names, `user_id`, `request_ts` (int64 microseconds) and
            `impression_id` among them.
        day: ordinals [B] of the rows' local days.
        histories: events of the users.
        memory: remembered vectors of the users, of the package's generation.
        precomputed: vectors of the rows, of the same generation.
    """

    columns: Mapping[str, Column]
    day: np.ndarray
    histories: HistoryStore
    memory: MemoryStore
    precomputed: Precomputed


@dataclass(frozen=True)
class ServedModel:
    """A vertical, ready to score.

    Attributes:
        manifest: digest, model_digest, world, vertical, ds, generation, schema, surfaces, tasks, history_length,
            memory_length, width, and `recalibration` of a model that is.
        schema: inputs and outputs.
        model: the network, in evaluation mode.
    """

    manifest: dict[str, Any]
    schema: FeatureSchema
    model: VerticalModel

    def inputs(self, raw: RawInputs) -> tuple[Batch, Transfer]:
        """Raw inputs as the model takes them, by the transform that training used."""
        schema, manifest = self.schema, self.manifest
        columns = raw.columns
        cut = HistoryCut(manifest["history_length"])
        histories = slice_histories(
            schema, raw.histories, columns["user_id"], raw.day, columns["request_ts"].values, cut
        )
        transfer = build_transfer(
            raw.memory, columns, raw.day, manifest["memory_length"], raw.precomputed, tasks=len(schema.tasks)
        )
        return build_batch(schema, columns, histories), transfer

    @torch.no_grad()
    def score(self, batch: Batch, transfer: Transfer) -> np.ndarray:
        """Probabilities in the full log, float64 [B, T]: of a post-click task given its parent, as it was trained."""
        logits = self.model(batch, transfer).served.double()
        if self.lines is not None:
            logits = self.lines.of_logits(logits, batch.surface)
        given: np.ndarray = logits.sigmoid().numpy()
        return given

    @cached_property
    def lines(self) -> Lines | None:
        """Of a model that is recalibrated: what lies between its logits and its probabilities."""
        told = self.manifest.get("recalibration")
        return Lines.of(told, self.schema.surfaces, self.schema.task_names) if told else None

    @cached_property
    def parents(self) -> Tensor:
        """Index of each task's parent by surface, see `models.funnel`."""
        return parents(self.schema)

    def unconditional(self, conditional: np.ndarray, batch: Batch) -> np.ndarray:
        """What is answered and decides: probabilities of the impressions themselves [B, T], from those of `score`."""
        found: np.ndarray = unconditional(torch.from_numpy(conditional), batch.surface, self.parents).numpy()
        return found

    def untrained(self, batch: Batch) -> dict[str, int]:
        """How many ids of each feature no training row had: they are scored by the default, as if they were missing."""
        return self.model.embeddings.untrained(batch)


def served_model(manifest: dict[str, Any], dense: Mapping[str, Tensor], tables: Mapping[str, Tensor]) -> ServedModel:
    """Build the network of a manifest around weights.

    Raises:
        PackageError: a parameter is missing, unexpected or of another shape.
    """
    schema = FeatureSchema.from_dict(manifest["schema"])
    config = VerticalConfig.from_dict(manifest["config"])
    model = VerticalModel(schema, config, manifest["width"], len(SOURCES))
    try:
        model.load_state_dict({**dense, **tables}, strict=True)
    except RuntimeError as error:
        raise PackageError(f"weights of {manifest['vertical']} do not fit its network: {error}") from error
    return ServedModel(manifest, schema, model.eval().requires_grad_(False))


def load_package(folder: Path, digest: str | None = None) -> ServedModel:
    """A package from disk, after checking its files and its parity rows.

    Args:
        folder: of the package.
        digest: what it must have, for example from the live pointer.

    Raises:
        PackageError: altered, incomplete, of another digest, or it does not give the trainer's probabilities.
    """
    try:
        manifest = artefact.read_manifest(folder, digest)
        tensors = {name: artefact.read_tensors(folder, name) for name in (DENSE, TABLES, PARITY_ROWS)}
    except artefact.ArtefactError as error:
        raise PackageError(
            f"package {folder.name} is not served: {error}; materialize the asset `package` of that day again"
        ) from error
    loaded = served_model(manifest, tensors[DENSE], tensors[TABLES])
    require_parity(loaded, tensors[PARITY_ROWS])
    return loaded


def require_parity(loaded: ServedModel, stored: Mapping[str, Tensor]) -> float:
    """Largest difference between the stored probabilities and what this code gives the stored inputs.

    Raises:
        PackageError: above `PARITY`, or there is no row to tell.
    """
    raw, expected = unpack_inputs(stored, loaded.manifest["surfaces"])
    if not len(expected):
        raise PackageError(f"package of {loaded.manifest['vertical']} has no parity rows; export a day that has some")
    difference = float(np.abs(loaded.score(*loaded.inputs(raw)) - expected).max())
    if not difference <= PARITY:
        raise PackageError(
            f"package of {loaded.manifest['vertical']} gives probabilities up to {difference:.2e} away from its "
            f"trainer's (at most {PARITY:g}); transform or model code has changed since, so train and export again"
        )
    return difference


def pack_inputs(raw: RawInputs, probabilities: np.ndarray, surfaces: tuple[str, ...]) -> dict[str, Tensor]:
    """Raw inputs and the trainer's probabilities [B, T] as tensors; `unpack_inputs` reads them back."""
    found = {"probability": probabilities.astype(np.float64), "day": raw.day.astype(np.int64)}
    for name, column in raw.columns.items():
        values = column.values
        if name == "surface":
            values = np.array([surfaces.index(value) for value in values], dtype=np.int64)
        found |= {f"column.{name}": values, f"missing.{name}": column.missing}
    store, memory = raw.histories, raw.memory
    owner = np.repeat(store.user_ids, np.diff(store.offsets))
    found |= {"event.user": owner, "event.us": store.event_us, "event.day": store.day, "event.type": store.type}
    for name, column in store.fields.items():
        found |= {f"event.field.{name}": column.values, f"event.missing.{name}": column.missing}
    remembered = np.repeat(memory.user_ids, np.diff(memory.offsets))
    found |= {"memory.user": remembered, "memory.day": memory.day, "memory.us": memory.request_us}
    found |= {"memory.vectors": memory.vectors, "vector": raw.precomputed.vector, "source": raw.precomputed.source}
    return {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in found.items()}


def unpack_inputs(stored: Mapping[str, Tensor], surfaces: list[str]) -> tuple[RawInputs, np.ndarray]:
    """Raw inputs and the trainer's probabilities."""
    found = {name: tensor.numpy() for name, tensor in stored.items()}
    names = [name.removeprefix("column.") for name in found if name.startswith("column.")]
    columns = {name: Column(found[f"column.{name}"], found[f"missing.{name}"]) for name in names}
    surface = np.array([surfaces[place] for place in columns["surface"].values], dtype=object)
    columns["surface"] = Column(surface, columns["surface"].missing)
    fields = {
        name.removeprefix("event.field."): Column(values, found[name.replace("event.field.", "event.missing.")])
        for name, values in found.items()
        if name.startswith("event.field.")
    }
    histories = HistoryStore.from_arrays(
        found["event.user"], found["event.day"], found["event.us"], found["event.type"], fields
    )
    memory = MemoryStore.from_arrays(
        found["memory.user"],
        found["memory.day"],
        found["memory.us"],
        # stored in order, so their places break ties as the impressions did
        np.arange(len(found["memory.user"])),
        found["memory.vectors"],
    )
    raw = RawInputs(columns, found["day"], histories, memory, Precomputed(found["vector"], found["source"]))
    return raw, found["probability"]
