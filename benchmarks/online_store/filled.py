"""Online stores that hold the same rows, opened the way a server reads them: Feast as it comes, and ours."""

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from features.home import Home
from features.store.definitions import definitions, view_specs
from features.store.lookup import OnlineStore
from features.store.online import write_rows
from features.store.quiet import quiet
from features.store.repo import ONLINE_SETTING, apply, feature_store, repo_settings
from features.store.versions import current, served

if TYPE_CHECKING:
    import pyarrow as pa
    from feast import FeatureStore

    from features.worlds.schema import World

Reader = Callable[[int, Sequence[int]], Any]
"""A user and ads -> their features."""


def ours(world: "World", root: Path, rows: "dict[str, pa.Table]", at: datetime, address: str = "") -> Reader:
    """The project's store, as the scoring service asks it.

    Args:
        world: names the views.
        root: an empty folder.
        rows: by view.
        at: the instant that requests name.
        address: of a Redis server and database; SQLite without it.
    """
    home = Home(root / world.name)
    with patch.dict(os.environ, {ONLINE_SETTING: address}):
        apply(world, home)
        _fill(feature_store(world, home), world, rows)
        store = OnlineStore(world, home)
    return lambda user, ads: store.features([user], ads, at)


def plain(world: "World", root: Path, rows: "dict[str, pa.Table]", online: dict[str, str]) -> dict[str, Reader]:
    """Feast's own store behind the same declarations, asked in both ways that Feast offers.

    Args:
        world: names the views.
        root: an empty folder.
        rows: by view.
        online: Feast's settings of the store.

    Returns:
        `feast`: one question for the service, a row a candidate. `feast_apart`: the user and the ads asked for one
        after the other, so that the user's values are not repeated for each candidate.
    """
    from feast import FeatureStore, RepoConfig

    home = Home(root / world.name)
    with quiet():
        store = FeatureStore(config=RepoConfig(**repo_settings(world, home) | {"online_store": online}))
        store.apply(definitions(world, home.tables, served(world, home)).all(), partial=False)
    _fill(store, world, rows)
    service = store.get_feature_service(current(world, home).online_service)
    specs = view_specs(world).values()
    of_user, of_ad = (
        [f"{spec.name}:{feature}" for spec in specs if spec.key == key for feature in spec.names]
        for key in ("user_id", "ad_id")
    )

    def together(user: int, ads: Sequence[int]) -> Any:
        return store.get_online_features(service, [{"user_id": user, "ad_id": ad} for ad in ads]).to_dict()

    def apart(user: int, ads: Sequence[int]) -> Any:
        users = store.get_online_features(of_user, [{"user_id": user}]).to_dict()
        return users, store.get_online_features(of_ad, [{"ad_id": ad} for ad in ads]).to_dict()

    return {"feast": together, "feast_apart": apart}


def _fill(store: "FeatureStore", world: "World", rows: "dict[str, pa.Table]") -> None:
    for spec in view_specs(world).values():
        write_rows(store, spec, rows[spec.name])
