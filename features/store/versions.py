"""Versions of the feature schema, and which of them have feature services.

A model is trained and served with the features of one day's declarations. When these change, a new version gets
services of its own (`gem_v2`, `gem_v2_online`), and those of older versions stay for whoever still asks by them, as
long as all that they name is declared. `definitions.json` beside the registry remembers the versions; one that comes
back gets its number back.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from features.errors import GemlineError
from features.store.definitions import ViewSpec, view_specs

if TYPE_CHECKING:
    from features.home import Home
    from features.worlds.schema import World

RECORD = "definitions.json"
Features = Mapping[str, Mapping[str, str]]
"""View -> feature -> type."""


@dataclass(frozen=True)
class SchemaVersion:
    """Features that belong together under one number, from 1."""

    number: int
    features: Features

    @property
    def service(self) -> str:
        """Name of the service with an example's features."""
        return f"gem_v{self.number}"

    @property
    def online_service(self) -> str:
        """Name of the service that a request is answered with: the short history as well."""
        return f"{self.service}_online"

    @property
    def digest(self) -> str:
        """Hash of views, features and types."""
        return hashlib.sha256(json.dumps(self.features).encode()).hexdigest()[:16]

    def declared_by(self, world: "World") -> bool:
        """Whether a world still declares all of it, in the same types."""
        now = features_of(world)
        return all(
            now.get(view, {}).get(name) == kind for view, own in self.features.items() for name, kind in own.items()
        )


def features_of(world: "World") -> dict[str, dict[str, str]]:
    """What a world declares now."""
    return {spec.name: spec.types for spec in view_specs(world).values()}


def record_of(home: "Home") -> dict[str, Any]:
    """What was applied last: `digest`, and `schemas`; empty before the first `apply`."""
    path = home.registry / RECORD
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def recorded(home: "Home") -> list[SchemaVersion]:
    """All versions that ever were, by number."""
    kept = record_of(home).get("schemas", [])
    return [SchemaVersion(number, features) for number, features in enumerate(kept, start=1)]


def with_current(world: "World", known: Sequence[SchemaVersion]) -> list[SchemaVersion]:
    """The known versions and, when it is a new one, that of a world's present declarations."""
    now = features_of(world)
    return [*known] if any(_same(old.features, now) for old in known) else [*known, SchemaVersion(len(known) + 1, now)]


def served(world: "World", home: "Home") -> list[SchemaVersion]:
    """Versions that have services: those whose features are all declared."""
    return [schema for schema in with_current(world, recorded(home)) if schema.declared_by(world)]


def current(world: "World", home: "Home") -> SchemaVersion:
    """The version of a world's present declarations."""
    now = features_of(world)
    return next(schema for schema in served(world, home) if _same(schema.features, now))


def features_by_service(world: "World", home: "Home", name: str) -> list[tuple[ViewSpec, str]]:
    """(view, feature) of a service, in order.

    Raises:
        GemlineError: there is no such service.
    """
    specs = view_specs(world)
    offered = {}
    for schema in served(world, home):
        pairs = [(specs[view], feature) for view, own in schema.features.items() for feature in own]
        offered[schema.online_service] = pairs
        offered[schema.service] = [pair for pair in pairs if not pair[0].is_history]
    if name not in offered:
        raise GemlineError(f"world {world.name} has no feature service '{name}'; known: {', '.join(sorted(offered))}")
    return offered[name]


def _same(one: Features, other: Features) -> bool:
    """Equal with the same order: a service gives its features in it."""
    return json.dumps(one) == json.dumps(other)
