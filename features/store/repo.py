"""Opening and applying a world's Feast repository.

The registry folder holds `registry.db`, `definitions.json` (hash of what was applied) and a
`feature_store.yaml` with which the `feast` command works as well: `feast -c GEMLINE_HOME/<world>/registry
feature-views list`. The online store is SQLite unless `GEMLINE_ONLINE_STORE=redis://host:port` (or `.../N` for
database N) says otherwise; both follow the same rules (`features.store.newest`, `features.store.newest_redis`).
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
from features.store.definitions import Definitions, definitions, digest
from features.store.quiet import ignore_named, quiet
from features.store.versions import RECORD, record_of, recorded, served, with_current
from features.worlds.schema import World

if TYPE_CHECKING:
    from feast import FeatureStore, RepoConfig

    from features.tables import Tables

ONLINE_SETTING = "GEMLINE_ONLINE_STORE"


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

    What is declared no more leaves the registry and the online store, services of older schema versions excepted.

    Returns:
        Hash of the declarations, also kept in `definitions.json` with all versions of the feature schema.
    """
    current = digest(world, home.tables)
    settings = repo_settings(world, home)
    with home.writing(f"applying the feature store of {world.name}"):
        (home.registry / "feature_store.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
        if applied_digest(home) != current:
            store, declared = _open(settings), definitions(world, home.tables, served(world, home))
            with quiet():
                store.apply(declared.all(), objects_to_delete=_undeclared(store, declared), partial=False)
            schemas = [schema.features for schema in with_current(world, recorded(home))]
            # last, and whole or not at all: what a crash leaves is applied again
            staged = home.registry / f"{RECORD}.tmp"
            staged.write_text(json.dumps({"digest": current, "schemas": schemas}), encoding="utf-8")
            staged.replace(home.registry / RECORD)
    return current


def _undeclared(store: "FeatureStore", declared: Definitions) -> list[object]:
    """Views and services of the registry that the declarations do not name any more."""
    services = [one for one in store.list_feature_services() if one.name not in declared.services]
    return [*services, *(one for one in store.list_feature_views() if one.name not in declared.views)]


def applied_digest(home: Home) -> str | None:
    """Hash of what the registry holds; None before the first `apply`."""
    return record_of(home).get("digest")


def pinned_store(world: World, home: Home, tables: "Tables") -> "tuple[FeatureStore, Path]":
    """A throw-away store whose sources are the versions that the ledger names.

    Returns:
        The store and the folder to remove when done. It has no online store.
    """
    declared = definitions(world, home.tables, served(world, home), _versions(tables))
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
    folder = str(home.online)
    choice = os.environ.get(ONLINE_SETTING, "")
    if not choice:
        path = str(home.online / "online.db")
        return {"type": "features.store.newest.NewestSqliteOnlineStore", "path": path, "folder": folder}
    address = urlparse(choice)
    database = address.path.strip("/") or "0"
    if address.scheme != "redis" or not address.hostname or not database.isdigit():
        raise GemlineError(f"{ONLINE_SETTING}={choice}: expected redis://host:port, or leave it unset for SQLite")
    where = f"{address.hostname}:{address.port or 6379},db={database}"
    kind = "features.store.newest_redis.NewestRedisOnlineStore"
    return {"type": kind, "connection_string": where, "folder": folder}
