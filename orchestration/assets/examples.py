"""Examples and labels: what was known of an impression when it was requested, and what became of it."""

from collections.abc import Sequence

import dagster as dg

from features.worlds import World
from orchestration.partitions import day_before
from orchestration.publishing import Events, asset_key, publish_table, table_options
from orchestration.resources import WorldResource

AS_OF_YESTERDAY = ("user_stats", "ad_stats", "users", "ads")


def example_assets(world: World) -> Sequence[dg.AssetsDefinition]:
    """Assets examples and labels."""
    yesterday = [dg.AssetDep(asset_key(world, name), partition_mapping=day_before()) for name in AS_OF_YESTERDAY]
    sources = [asset_key(world, "impressions"), asset_key(world, "feature_store")]

    @dg.asset(**table_options(world, "examples", "features", deps=[*sources, *yesterday]))
    def examples(context: dg.AssetExecutionContext, gemline: WorldResource) -> Events:
        """Features of every impression as they were known before its request; rows in = rows out."""
        from features.examples import examples as compute
        from features.examples import expected_rows

        yield from publish_table(context, gemline, "examples", compute, expected_rows)

    @dg.asset(
        **table_options(
            world, "labels", "features", deps=[asset_key(world, name) for name in ("impressions", "outcomes")]
        )
    )
    def labels(context: dg.AssetExecutionContext, gemline: WorldResource) -> Events:
        """Exactly the (impression, task) pairs whose window closed on the day, positives included."""
        from features.labels import expected_pairs
        from features.labels import labels as compute

        yield from publish_table(context, gemline, "labels", compute, expected_pairs)

    return [examples, labels]
