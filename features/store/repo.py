"""Opening and applying a world's Feast repository.

The registry folder holds `registry.db`, `definitions.json` (hash of what was applied) and a
`feature_store.yaml` with which the `feast` command works as well: `feast -c GEMLINE_HOME/<world>/registry
feature-views list`. The online store is SQLite unless `GEMLINE_ONLINE_STORE=redis://host:port` says
otherwise; Redis keeps newer values by itself, but takes a restated value only with a later event time.
"""

import json
import os
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import yaml

from features.errors import GemlineError
from features.home import Home
from features.store.definitions import definitions, digest
from features.store.quiet import ignore_named, quiet
from features.worlds.schema import World

if TYPE_CHECKING:
    from feast import FeatureStore, RepoConfig

    from features.tables import Tables

ONLINE_SETTING = "GEMLINE_ONLINE_STORE"
RECORD = "definitions.json"


class StoreStale(GemlineError):
    """The registry does not hold the declarations of this code and world."""


def repo_settings(world: World, home: Home) -> dict[str, Any]:
    """Contents of `feature_store.yaml`."""
    return {
        "project": world.name,
        "provider": "local",
        "registry": {"registry_type": "file", "path": str(home.registry / "registry.db")},
        "offline_store": {"type": "spark"},
        "online_store": _online_settings(home),
        "entity_key_serialization_version": 3,
    }


def feature_store(world: World, home: Home) -> "FeatureStore":
    """The world's applied feature store.

    Raises:
        StoreStale: nothing was applied, or declarations have changed since.
    """
    require_applied(world, home)
    return _open(repo_settings(world, home))


def require_applied(world: World, home: Home) -> None:
    """Refuse a registry that does not hold the declarations of this code and world.

    Raises:
        StoreStale: as `feature_store`.
    """
    current = digest(world, home.tables)
    applied = applied_digest(home)
    if applied != current:
        state = (
            "was never applied"
            if applied is None
            else f"was applied from other declarations, or for tables elsewhere than in {home.tables}"
        )
        raise StoreStale(
            f"the feature store of world '{world.name}' {state}; materialize the asset "
            f"{world.name}/feature_store (or `python -m features.store.apply {world.name}`)"
        )


def online_repo(world: World, home: Home) -> "RepoConfig":
    """Settings of the online store alone; nothing is opened, and no offline engine is loaded.

    Raises:
        GemlineError: `GEMLINE_ONLINE_STORE` is no address.
    """
    from feast import RepoConfig

    return RepoConfig(**repo_settings(world, home) | {"offline_store": None})


def apply(world: World, home: Home) -> str:
    """Write the declarations into the registry and make the online tables; running it again changes nothing.

    Returns:
        Hash of the declarations, also kept in `definitions.json`.
    """
    current = digest(world, home.tables)
    settings = repo_settings(world, home)
    with home.writing(f"applying the feature store of {world.name}"):
        (home.registry / "feature_store.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
        if applied_digest(home) != current:
            store = _open(settings)
            with quiet():
                store.apply(definitions(world, home.tables).all(), partial=False)
            (home.registry / RECORD).write_text(json.dumps({"digest": current}), encoding="utf-8")
    return current


def applied_digest(home: Home) -> str | None:
    """Hash of what the registry holds; None before the first `apply`."""
    record = home.registry / RECORD
    return str(json.loads(record.read_text(encoding="utf-8"))["digest"]) if record.exists() else None


def pinned_store(world: World, home: Home, tables: "Tables") -> "tuple[FeatureStore, Path]":
    """A throw-away store whose sources are the versions that the ledger names.

    Returns:
        The store and the folder to remove when done. It has no online store.
    """
    declared = definitions(world, home.tables, _versions(tables))
    folder = Path(mkdtemp(prefix="pinned-", dir=home.folder("cache")))
    settings = repo_settings(world, home) | {
        "registry": {"registry_type": "file", "path": str(folder / "registry.db")},
        "online_store": None,
    }
    store = _open(settings)
    with quiet():
        store.apply(declared.all(), partial=False)
    return store, folder


def _versions(tables: "Tables") -> dict[str, int]:
    names = ("user_stats", "ad_stats", "users", "ads", "user_recent")
    return {name: tables.version(name) for name in names if tables.version(name) >= 0}


def _open(settings: dict[str, Any]) -> "FeatureStore":
    from feast import FeatureStore, RepoConfig

    ignore_named()
    with quiet():
        return FeatureStore(config=RepoConfig(**settings))


def _online_settings(home: Home) -> dict[str, Any]:
    choice = os.environ.get(ONLINE_SETTING, "")
    if not choice:
        return {
            "type": "features.store.newest.NewestSqliteOnlineStore",
            "path": str(home.online / "online.db"),
        }
    address = urlparse(choice)
    if address.scheme != "redis" or not address.hostname:
        raise GemlineError(f"{ONLINE_SETTING}={choice}: expected redis://host:port, or leave it unset for SQLite")
    return {"type": "redis", "connection_string": f"{address.hostname}:{address.port or 6379}"}
