"""Statistics and histories of users and ads up to the end of a day, all from unsampled events."""

from collections.abc import Sequence

import dagster as dg

from features.worlds import World
from orchestration.publishing import Events, asset_key, publish_table, table_options
from orchestration.resources import WorldResource


def statistics_assets(world: World) -> Sequence[dg.AssetsDefinition]:
    """Assets user_stats, ad_stats, user_history and user_recent."""
    deps = [asset_key(world, "events")]

    @dg.asset(**table_options(world, "user_stats", "features", deps=deps))
    def user_stats(context: dg.AssetExecutionContext, gemline: WorldResource) -> Events:
        """Rolling counts of each active user over the world's windows, as of the end of the day."""
        from features.stats import user_stats as compute

        yield from publish_table(context, gemline, "user_stats", compute)

    @dg.asset(**table_options(world, "ad_stats", "features", deps=deps))
    def ad_stats(context: dg.AssetExecutionContext, gemline: WorldResource) -> Events:
        """Rolling counts and shares of each active ad over the world's windows, as of the end of the day."""
        from features.stats import ad_stats as compute

        yield from publish_table(context, gemline, "ad_stats", compute)

    @dg.asset(**table_options(world, "user_history", "features", deps=deps))
    def user_history(context: dg.AssetExecutionContext, gemline: WorldResource) -> Events:
        """The day's events of each user as sorted arrays; the trainer slices them, so length is its argument."""
        from features.history import user_history as compute

        yield from publish_table(context, gemline, "user_history", compute)

    @dg.asset(**table_options(world, "user_recent", "features", deps=[asset_key(world, "user_history")]))
    def user_recent(context: dg.AssetExecutionContext, gemline: WorldResource) -> Events:
        """The newest events of each user with news that day: the short history that Feast serves."""
        from features.history import user_recent as compute

        yield from publish_table(context, gemline, "user_recent", compute)

    return [user_stats, ad_stats, user_history, user_recent]
