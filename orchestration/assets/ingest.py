"""Ingest: the raw log of a day, as its world file maps it, into five Delta tables behind their gates."""

from collections.abc import Sequence

import dagster as dg

from features.worlds import World
from orchestration.partitions import day_axis
from orchestration.publishing import Events, asset_key, plain_failure, publish_frame, quality_check
from orchestration.resources import WorldResource

TABLES = {
    "users": "Attributes of users as known from an instant on; rows come when they change.",
    "ads": "Attributes of ads as known from an instant on; rows come when they change.",
    "events": "User behaviour of any type, by day of arrival: the source of statistics and histories.",
    "outcomes": "What happened after impressions, by day of arrival: the source of labels.",
    "impressions": "One row for every ad shown (negatives sampled exactly, keep_rate on every row).",
}


def ingest_assets(world: World) -> Sequence[dg.AssetsDefinition]:
    """The multi-asset that reads a day once and publishes all five tables."""

    @dg.multi_asset(
        name="ingest",
        specs=[
            dg.AssetSpec(
                asset_key(world, table),
                description=text,
                group_name="ingest",
                kinds={"spark", "deltalake"},
                owners=["team:ads-ranking"],
                partitions_def=day_axis(world),
            )
            for table, text in TABLES.items()
        ],
        check_specs=[quality_check(world, table) for table in TABLES],
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def ingest(context: dg.AssetExecutionContext, gemline: WorldResource) -> Events:
        from features.forgotten import without_forgotten
        from features.sources.base import extract

        with plain_failure():
            tables = gemline.tables()
            extracted = extract(tables.spark, gemline.world, context.partition_keys)
            extracted = without_forgotten(extracted, gemline.world, gemline.home)
            if extracted.refused is not None:
                context.log.info("refused rows: %s", tables.quarantine(extracted.refused, context.partition_keys))
            for table in TABLES:
                yield from publish_frame(context, gemline, table, extracted.tables[table])

    return [ingest]
