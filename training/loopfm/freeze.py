"""Freezing a generation: take a promoted model as it is, fit an autoencoder to its activations, write both."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from features.days import day_range, shift
from features.errors import GemlineError
from features.schema_of import history_days
from features.transform.schema import FeatureSchema
from models import artefact
from models.gem.config import GemConfig
from models.gem.model import Gem
from models.layers.autoencoder import MatryoshkaAutoencoder
from models.layers.tables import TABLES_PREFIX
from training import checkpoint
from training.chain import day_files
from training.compute import Compute, deterministic
from training.digest import tensors_hash
from training.loopfm.generation import LAYERS, activations_of, folder_of, manifests
from training.plan import DayFiles, ModelRef
from training.reader import Reader
from training.recalibration import packaged
from training.recipes import Recipe

if TYPE_CHECKING:
    from features.home import Home
    from features.tables import ModelDecision, Tables

SAMPLE_DAYS = 14
SAMPLE_ROWS = 16_384
BATCH = 2048
STEPS, STEP_ROWS, RATE = 400, 512, 2e-3


@dataclass(frozen=True)
class Rows:
    """Examples to be scored: what a `Reader` needs, without labels."""

    schema: FeatureSchema
    examples: dict[str, DayFiles]
    user_history: dict[str, DayFiles]
    seed: int = 0
    labels: dict[str, DayFiles] = field(default_factory=dict)


@deterministic()
def freeze(tables: "Tables", model: "ModelDecision", seed: int = 7) -> dict[str, Any]:
    """Freeze an accepted model of GEM; a model that was frozen with this width and seed already changes nothing.

    Args:
        tables: with `examples` of the model's last days.
        model: the decision that accepted it.
        seed: of the autoencoder.

    Returns:
        The manifest: name, digest, model, last_label_day, width, reconstruction error by prefix.

    Raises:
        GemlineError: the checkpoint is not what was judged, a day is not readable, or the folder holds another model.
    """
    width = tables.world.transfer.width
    if (held := _held(tables.home, model.digest, width, seed)) is not None:
        return held
    ref = ModelRef(str(tables.home.root / model.path), model.digest)
    trained = checkpoint.verified(ref)
    schema, recipe = FeatureSchema.from_dict(trained["schema"]), Recipe.from_dict(trained["recipe"])
    gem = _frozen(ref, schema, recipe)
    last = trained["identity"]["position"]
    activations = _sample(tables, gem, schema, recipe, last)
    autoencoder, errors = _fit(activations, width, seed)
    name = _name(model.digest, autoencoder.state_dict())
    state = gem.state_dict()
    manifest: dict[str, Any] = {
        "kind": "generation",
        "name": name,
        "world": tables.world.name,
        "ds": model.ds,
        "last_label_day": last,
        "model": {"digest": model.digest, "config": recipe.model.to_dict()},
        "schema": schema.to_dict(),
        "tasks": list(schema.task_names),
        "layers": list(LAYERS),
        "activations": activations.shape[1],
        "width": width,
        "seed": seed,
        "reconstruction": dict(zip(map(str, autoencoder.prefixes), errors, strict=True)),
        # for whoever asks for GEM's probabilities; what teaches is raw, see docs/models.md
        **packaged(trained),
    }
    tensors = {
        "dense": {key: value for key, value in state.items() if not key.startswith(TABLES_PREFIX)},
        "tables": {key: value for key, value in state.items() if key.startswith(TABLES_PREFIX)},
        "autoencoder": autoencoder.state_dict(),
    }
    with tables.home.writing(f"freezing {name}"):
        manifest["sequence"] = 1 + max((one.get("sequence", 0) for one in manifests(tables.home)), default=0)
        try:
            return artefact.write(folder_of(tables.home) / name, manifest, tensors)
        except artefact.ArtefactError as error:
            raise GemlineError(f"generation {name} cannot be frozen: {error}") from error


def _held(home: "Home", model: str, width: int, seed: int) -> dict[str, Any] | None:
    """The readable generation that was made of these; those of earlier code do not say their seed."""
    for manifest in manifests(home):
        if (manifest["model"]["digest"], manifest["width"], manifest.get("seed", seed)) == (model, width, seed):
            return manifest
    return None


def _name(model: str, autoencoder: Mapping[str, Tensor]) -> str:
    """From what its vectors come of: made again they have this name only if they mean the same."""
    made_of = json.dumps([model, list(LAYERS), tensors_hash(autoencoder)])
    return f"gen-{hashlib.sha256(made_of.encode()).hexdigest()[:12]}"


def _frozen(ref: ModelRef, schema: FeatureSchema, recipe: Recipe) -> Gem:
    assert isinstance(recipe.model, GemConfig)
    gem = Gem(schema, recipe.model)
    tensors = checkpoint.full_tensors(ref)
    gem.load_state_dict(
        {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    )
    return gem.eval().requires_grad_(False)


@torch.no_grad()
def _sample(tables: "Tables", gem: Gem, schema: FeatureSchema, recipe: Recipe, last: str) -> Tensor:
    """Activations of impressions of the last days that the model has seen, [N, D]."""
    first = max(shift(last, 1 - SAMPLE_DAYS), tables.world.first_day)
    days = day_range(first, last)
    history = history_days(tables.world, last)
    reader = Reader(Rows(schema, day_files(tables, "examples", days), day_files(tables, "user_history", history)))
    found = []
    for ds in days:
        rows = reader.examples(ds)
        parts = reader.batches(rows, schema, BATCH, Compute.alone().share, recipe.cut)
        found += [activations_of(gem, batch)[1] for _, batch in parts]
    activations = torch.cat(found)
    chosen = np.random.default_rng(0).permutation(len(activations))[:SAMPLE_ROWS]
    return activations[torch.from_numpy(chosen)]


def _fit(activations: Tensor, width: int, seed: int) -> tuple[MatryoshkaAutoencoder, list[float]]:
    """The autoencoder, and its error by prefix on the sample, in units of the inputs' variance."""
    torch.manual_seed(seed)
    model = MatryoshkaAutoencoder(activations.shape[1], width)
    model.fit_scale(activations)
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(STEPS):
        rows = torch.randint(len(activations), (min(STEP_ROWS, len(activations)),), generator=generator)
        adam.zero_grad(set_to_none=True)
        model.errors(activations[rows]).sum().backward()
        adam.step()
    with torch.no_grad():
        errors = model.errors(activations).tolist()
    return model.eval(), errors
