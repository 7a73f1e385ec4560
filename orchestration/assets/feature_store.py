"""The Feast feature store: definitions applied when they change, and the online store filled window by window."""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from features.worlds import World
from orchestration.partitions import day_axis
from orchestration.publishing import asset_key, plain_failure
from orchestration.resources import WorldResource

VIEWS = ("user_stats", "ad_stats", "user_recent", "users", "ads")


def feature_store_assets(world: World) -> Sequence[dg.AssetsDefinition]:
    """Assets feature_store (the registry) and online_features."""
    common: dict[str, Any] = {"group_name": "features", "owners": ["team:ads-ranking"]}

    @dg.asset(key=asset_key(world, "feature_store"), kinds={"feast"}, **common)
    def feature_store(context: dg.AssetExecutionContext, gemline: WorldResource) -> dg.MaterializeResult:
        """Feast entities, views and services of the world; readers assert that they are the applied ones."""
        from features.store.repo import apply

        with plain_failure():
            applied = apply(gemline.world, gemline.home)
        context.log.info("applied %s", applied)
        return dg.MaterializeResult(metadata={"definitions": applied}, data_version=dg.DataVersion(applied))

    @dg.asset(
        key=asset_key(world, "online_features"),
        kinds={"feast", "sqlite"},
        partitions_def=day_axis(world),
        backfill_policy=dg.BackfillPolicy.single_run(),
        deps=[asset_key(world, name) for name in (*VIEWS, "feature_store")],
        **common,
    )
    def online_features(context: dg.AssetExecutionContext, gemline: WorldResource) -> dg.MaterializeResult:
        """What requests of the next day see: the newest value of every view in the online store."""
        from features.store.online import materialize

        with plain_failure():
            written = materialize(gemline.world, gemline.home, gemline.tables(), context.partition_keys)
        return dg.MaterializeResult(metadata={f"rows_{view}": rows for view, rows in written.items()})

    return [feature_store, online_features]
