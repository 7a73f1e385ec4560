"""Ingest: the raw log of a day, as its world file maps it, into five Delta tables behind their gates."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from features.worlds import World
from orchestration.freshness import freshness
from orchestration.partitions import day_axis
from orchestration.publishing import Events, asset_key, plain_failure, publish_frame, quality_check
from orchestration.resources import WorldResource

if TYPE_CHECKING:
    from features.tables import Tables
    from features.tables.quarantine import Refused

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
                freshness_policy=freshness(world),
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
            refused = None
            if extracted.refused is not None:
                refused = tables.quarantine(extracted.refused, context.partition_keys)
                _tell_refused(context, refused)
            before = {table: tables.readable_days(table) for table in TABLES}
            try:
                for table in TABLES:
                    yield from publish_frame(context, gemline, table, extracted.tables[table], refused=refused)
            finally:
                # also when a later table is red
                _tell_restated(context, tables, before)

    return [ingest]


def _tell_refused(context: dg.AssetExecutionContext, refused: "Sequence[Refused]") -> None:
    """One line a rule and file, over all days of the run."""
    rows: Counter[tuple[str, str, str]] = Counter()
    for one in refused:
        rows[one.table, one.source, one.rule] += one.rows
    for (table, source, rule), count in rows.most_common():
        context.log.warning("%s", f"{count} rows of {table} refused, {source}: {rule}")


def _tell_restated(
    context: dg.AssetExecutionContext, tables: "Tables", before: Mapping[str, Mapping[str, str]]
) -> None:
    """Name the days whose content is another now, and what is stale for it."""
    from orchestration.rebuilding import recorded_cost, told
    from orchestration.staleness import staleness

    restated = [
        f"{table} of {ds} was restated"
        for table, days in before.items()
        for ds, content in tables.readable_days(table).items()
        if days.get(ds, content) != content
    ]
    if restated:
        world = tables.world.name
        stale = told(staleness(tables), world, recorded_cost(world, context.instance))
        for line in (*restated, *stale.splitlines()):
            context.log.warning("%s", line)
