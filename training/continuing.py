"""Continue a chain though the world's surfaces changed: what a surface owns is found by the surface's name.

Weights, moments, step counts and `seen` of surfaces lie in rows, in the order of the schema that a checkpoint was
trained with. A surface that the checkpoint does not know starts cold: its own experts and their gate are as built, and
the shared experts answer until it has been trained on. Its token and its part of the heads start at the mean of the
surfaces that were trained on, which is what the shared weights are used to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from features.transform.schema import FeatureSchema
from models.gem.model import Gem

STEPS = "dense_optim.surface_steps"
EXPERTS = "trunk.experts."
"""What is below it starts as built on a new surface."""


def only_surfaces_differ(parent: FeatureSchema, schema: FeatureSchema) -> bool:
    """Whether a schema is its parent's with its surfaces in any order, and more of them.

    A task may exist on new surfaces, too; on known ones it exists where it did.
    """
    if set(parent.surfaces) - set(schema.surfaces) or parent.task_names != schema.task_names:
        return False
    return _in_any_order(schema.part(parent.surfaces, schema.task_names)) == _in_any_order(parent)


def _in_any_order(schema: FeatureSchema) -> FeatureSchema:
    """Which tasks a surface has matters, not the order in which a task names its surfaces."""
    return replace(schema, tasks=tuple(replace(task, surfaces=tuple(sorted(task.surfaces))) for task in schema.tasks))


def with_surfaces_of(trained: FeatureSchema, schema: FeatureSchema) -> FeatureSchema:
    """A trained model's schema and, after its own, the surfaces of another that it does not know."""
    new = tuple(name for name in schema.surfaces if name not in trained.surfaces)
    return replace(trained, surfaces=trained.surfaces + new)


def by_surface(gem: Gem, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those of a trainee's tensors whose first dimension is the surface, by canonical name."""
    names = {STEPS, f"model.{EXPERTS}seen"}
    for name in gem.surface_rows:
        names |= {f"model.{name}", *(f"dense_optim.{name}.{kind}" for kind in ("trained", "exp_avg", "exp_avg_sq"))}
    return {name: state[name] for name in sorted(names) if name in state}


def room_for(held: Mapping[str, Tensor], surfaces: Sequence[str]) -> dict[str, Tensor]:
    """Tensors like these with a row for each of a checkpoint's surfaces, to load it into."""
    return {name: tensor.new_zeros(len(surfaces), *tensor.shape[1:]) for name, tensor in held.items()}


@torch.no_grad()
def place(
    held: Mapping[str, Tensor], loaded: Mapping[str, Tensor], trained: Sequence[str], surfaces: Sequence[str]
) -> None:
    """Copy a checkpoint's rows to where their surfaces are now, and start those of new surfaces.

    Args:
        held: by `by_surface`, of a cold model; changed in place.
        loaded: the same tensors of the checkpoint.
        trained: the checkpoint's surfaces, in the order of its rows.
        surfaces: the model's.
    """
    known = loaded[STEPS] > 0
    rows = [(row, trained.index(name)) for row, name in enumerate(surfaces) if name in trained]
    new = [row for row, name in enumerate(surfaces) if name not in trained]
    for name, tensor in held.items():
        old = loaded[name]
        for row, source in rows:
            tensor[row] = old[source]
        if new and known.any() and _starts_at_mean(name):
            tensor[new] = old[known].mean(0)


def _starts_at_mean(name: str) -> bool:
    """Of weights: those at rest, which are averages, and those that are trained."""
    if EXPERTS in name:
        return False
    return name.startswith("model.") or name.endswith(".trained")
