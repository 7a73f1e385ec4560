"""From a released checkpoint to a package: the only place where serving meets the trainer.

A package is written only when it gives the trainer's own probabilities for rows of its day.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from torch import Tensor

from features.errors import GemlineError
from features.transform.columns import Column
from features.transform.histories import HistoryStore
from features.transform.transfer import MemoryStore
from models import artefact
from models.layers.tables import TABLES_PREFIX
from serving.package import (
    DENSE,
    PARITY_ROWS,
    TABLES,
    PackageError,
    RawInputs,
    load_package,
    pack_inputs,
    require_parity,
    served_model,
)
from training import checkpoint
from training.plan import ModelRef, Plan
from training.recalibration import packaged
from training.verticals.learner import VerticalLearner
from training.walk import CANDIDATE

PARITY_SAMPLE = 200
"""Rows of the day that a package carries to check itself."""


@dataclass(frozen=True)
class Exported:
    """A package on disk.

    Attributes:
        folder: of the package.
        manifest: of it.
        difference: largest one between a probability of the trainer and one of the package.
    """

    folder: Path
    manifest: dict[str, Any]
    difference: float


def export(ref: ModelRef, plan: Plan, packages: Path) -> Exported:
    """Write the package of a vertical's checkpoint; one that is there, whole and right, stays as it is.

    Args:
        ref: the checkpoint, as judged.
        plan: that it was trained by.
        packages: folder of the vertical's packages.

    Raises:
        PackageError: the package would not give the trainer's probabilities, or its weights do not fit.
        GemlineError: the checkpoint is not what was judged.
    """
    trained = checkpoint.verified(ref)
    folder = packages / f"{plan.partition}-{ref.digest[:12]}"
    if (held := _held(folder, ref.digest)) is not None:
        return held
    tensors = checkpoint.full_tensors(ref)
    state = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    # optimizer state stands beside the weights of an arm
    state = {name: value for name, value in state.items() if not name.startswith(("dense_optim.", "table_optim."))}
    defaults = _default_rows(state, tensors)
    manifest = _manifest(trained, plan, defaults)
    dense = {name: value for name, value in state.items() if not name.startswith(TABLES_PREFIX)}
    tables = {name: value for name, value in state.items() if name.startswith(TABLES_PREFIX)}
    parity = pack_inputs(*_sample(plan, Path(ref.path)), plan.schema.surfaces)
    require_parity(served_model(manifest, dense, tables), parity)
    try:
        written = artefact.write(folder, manifest, {DENSE: dense, TABLES: tables, PARITY_ROWS: parity})
    except artefact.ArtefactError as error:
        raise PackageError(f"package of {manifest['vertical']}: {error}") from error
    return Exported(folder, written, require_parity(load_package(folder, written["digest"]), parity))


def _manifest(trained: dict[str, Any], plan: Plan, defaults: dict[str, int]) -> dict[str, Any]:
    assert plan.transfer is not None
    return {
        "kind": "vertical",
        "model_digest": trained["digest"],
        "world": plan.world,
        "vertical": Path(plan.output).parent.name,
        "ds": plan.partition,
        "generation": plan.transfer.generation.name,
        "schema": plan.schema.to_dict(),
        "config": plan.recipe.model.to_dict(),
        "surfaces": list(plan.schema.surfaces),
        "tasks": list(plan.schema.task_names),
        "history_length": plan.recipe.model.history_length,
        "memory_length": plan.transfer.memory_length,
        "width": plan.transfer.generation.width,
        "untrained_rows": defaults,
        **packaged(trained),
    }


def _held(folder: Path, model_digest: str) -> Exported | None:
    """The package in a folder, if it is one of this model and gives what its trainer gave."""
    try:
        loaded = load_package(folder)
    except PackageError:
        return None
    if loaded.manifest["model_digest"] != model_digest:
        return None
    return Exported(folder, loaded.manifest, require_parity(loaded, artefact.read_tensors(folder, PARITY_ROWS)))


def _default_rows(state: dict[str, Tensor], tensors: dict[str, Tensor]) -> dict[str, int]:
    """Set rows that training never touched to the default, zero; how many there are by table."""
    found = {}
    for name in [name for name in state if name.startswith(TABLES_PREFIX)]:
        table = name.removeprefix(f"{TABLES_PREFIX}embeddings.").removesuffix(".weight")
        untouched = tensors[f"touches.{table}"] == 0
        state[name] = state[name].masked_fill(untouched[:, None], 0.0)
        found[table] = int(untouched.sum())
    return found


def _sample(plan: Plan, folder: Path) -> tuple[RawInputs, np.ndarray]:
    """Raw inputs of some rows of the plan's day, and the probabilities that the trainer gave them."""
    given = _given(plan, folder)
    reader = VerticalLearner().reader(plan, None)
    rows = reader.examples(plan.partition)
    held = np.flatnonzero(np.isin(rows.impression_id, list(given)))
    if not len(held):
        raise GemlineError(f"no row of {plan.partition} was scored, so nothing tells whether a package is right")
    rows = rows.take(held[:: max(1, len(held) // PARITY_SAMPLE)][:PARITY_SAMPLE])
    expected = np.array([given[impression] for impression in rows.impression_id.tolist()])
    assert plan.transfer is not None
    lessons = reader.lessons_of(plan.transfer.generation.name)
    users = rows.columns["user_id"]
    known = np.unique(users.values[~users.missing])
    return (
        RawInputs(
            columns=dict(rows.columns),
            day=rows.day,
            histories=_events_of(reader.histories, known),
            memory=_memory_of(lessons.memory, known),
            precomputed=lessons.precomputed(rows),
        ),
        expected,
    )


def _given(plan: Plan, folder: Path) -> dict[int, list[float]]:
    """Impression -> probability by task, of rows that have one of every task."""
    wanted = [("role", "==", CANDIDATE), ("scored_ds", "==", plan.partition), ("ds", "==", plan.partition)]
    frame = pq.read_table(folder / checkpoint.PREDICTIONS, filters=wanted).to_pandas()
    by_task = frame.pivot_table(index="impression_id", columns="task", values="prediction")
    names = [name for name in plan.schema.task_names if name in by_task]
    if names != list(plan.schema.task_names):
        missing = sorted(set(plan.schema.task_names) - set(names))
        raise GemlineError(f"{Path(plan.output).parent.name}: tasks {missing} have met no label yet; nothing to serve")
    whole = by_task[names].dropna()
    return {int(impression): values for impression, values in zip(whole.index, whole.to_numpy().tolist(), strict=True)}


def _events_of(store: HistoryStore, users: np.ndarray) -> HistoryStore:
    owner = np.repeat(store.user_ids, np.diff(store.offsets))
    kept = np.isin(owner, users)
    fields = {name: Column(column.values[kept], column.missing[kept]) for name, column in store.fields.items()}
    return HistoryStore.from_arrays(owner[kept], store.day[kept], store.event_us[kept], store.type[kept], fields)


def _memory_of(store: MemoryStore, users: np.ndarray) -> MemoryStore:
    owner = np.repeat(store.user_ids, np.diff(store.offsets))
    kept = np.flatnonzero(np.isin(owner, users))
    return MemoryStore.from_arrays(owner[kept], store.day[kept], store.request_us[kept], kept, store.vectors[kept])
