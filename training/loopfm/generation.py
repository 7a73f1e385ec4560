"""A generation: GEM's weights and an autoencoder of its activations, frozen together under one name.

`<home>/releases/generations/<name>/` is an artefact (`models.artefact`). Everything made by a generation carries
its name, and nothing mixes two: their vectors mean different things. It has seen labels up to `last_label_day`, so
it teaches examples of later days only; representations of earlier impressions may be remembered.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from features.errors import GemlineError
from features.home import Home
from features.transform.batch import Batch
from features.transform.schema import FeatureSchema
from models import artefact
from models.gem.config import GemConfig
from models.gem.model import Gem
from models.layers.autoencoder import MatryoshkaAutoencoder
from training.plan import GenerationRef

LAYERS = ("interaction", "trunk")
"""Activations of GEM that are compressed, concatenated in this order."""
COEXISTING = 2
"""Newest generations that are kept filled beside the pinned ones: verticals switch to the last and back."""
MEND = (
    "freeze GEM of its day again, restore its folder from a backup, or roll back the verticals that were made with it"
)
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Generation:
    """A frozen foundation model, ready to be asked.

    Attributes:
        manifest: of its artefact: name, sequence, model, ds, last_label_day, schema, tasks, width.
        schema: inputs and outputs.
        gem: the model, in one process.
        autoencoder: of its activations.
    """

    manifest: dict[str, Any]
    schema: FeatureSchema
    gem: Gem
    autoencoder: MatryoshkaAutoencoder

    @property
    def ref(self) -> GenerationRef:
        """What students need to know."""
        return reference(self.manifest)

    @torch.no_grad()
    def outputs(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits of the full log [B, T] and vectors [B, d], each number of a vector in [-1, 1]."""
        logits, activations = activations_of(self.gem, batch)
        return logits, self.autoencoder.encode(activations)


def activations_of(gem: Gem, batch: Batch) -> tuple[Tensor, Tensor]:
    """Logits [B, T] and the concatenated activations of `LAYERS`, [B, D]."""
    logits, layers = gem.represent(batch)
    return logits, torch.cat([layers[name] for name in LAYERS], dim=1)


def folder_of(home: Home) -> Path:
    """Where generations are kept."""
    return home.releases / "generations"


def manifests(home: Home, needed: Collection[str] = ()) -> list[dict[str, Any]]:
    """Manifests of all readable generations, in the order in which they were frozen.

    Args:
        home: the world's home.
        needed: names of those that must be readable; a damaged one of any other name is left out with a warning.

    Raises:
        GemlineError: a needed one is damaged or not there.
    """
    found = []
    for folder in sorted(folder_of(home).glob("gen-*")):
        try:
            found.append(_manifest(folder))
        except GemlineError as error:
            if folder.name in needed:
                raise
            LOG.warning("left out: %s", error)
    if missing := sorted(set(needed) - {manifest["name"] for manifest in found}):
        raise GemlineError(f"generation {missing[0]} is not there, but a model that counts was made with it; {MEND}")
    # those of earlier code have no number
    return sorted(found, key=lambda manifest: (manifest.get("sequence", 0), manifest["ds"], manifest["name"]))


def coexisting(home: Home, pinned: Collection[str] = ()) -> list[dict[str, Any]]:
    """Manifests of the generations that are kept filled: the newest ones, and all that are pinned.

    Args:
        home: the world's home.
        pinned: names of those that live packages, incumbents and parents were made with.

    Raises:
        GemlineError: there is none yet, or a pinned one is damaged or not there.
    """
    found = manifests(home, pinned)
    if not found:
        raise GemlineError("no generation was frozen yet; materialize fm_generation once a GEM model was promoted")
    newest = {manifest["name"] for manifest in found[-COEXISTING:]}
    return [manifest for manifest in found if manifest["name"] in newest.union(pinned)]


def load(home: Home, name: str) -> Generation:
    """A generation by name.

    Raises:
        GemlineError: it is not there, altered, or of other sizes than this code makes.
    """
    folder = folder_of(home) / name
    manifest = _manifest(folder)
    schema = FeatureSchema.from_dict(manifest["schema"])
    gem = Gem(schema, GemConfig.from_dict(manifest["model"]["config"]))
    autoencoder = MatryoshkaAutoencoder(manifest["activations"], manifest["width"])
    try:
        gem.load_state_dict(artefact.read_tensors(folder, "dense") | artefact.read_tensors(folder, "tables"))
        autoencoder.load_state_dict(artefact.read_tensors(folder, "autoencoder"))
    except (artefact.ArtefactError, RuntimeError) as error:
        raise GemlineError(
            f"generation {name} does not fit this code: {error}; freeze a GEM that this code trained"
        ) from error
    return Generation(manifest, schema, gem.eval(), autoencoder.eval())


def reference(manifest: dict[str, Any]) -> GenerationRef:
    """What students need to know of a generation."""
    return GenerationRef(manifest["name"], manifest["last_label_day"], tuple(manifest["tasks"]), manifest["width"])


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        return artefact.read_manifest(folder)
    except artefact.ArtefactError as error:
        raise GemlineError(f"generation {folder.name} is not readable: {error}; {MEND}") from error
