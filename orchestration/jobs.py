"""Jobs: one a stage group, the range-capable tables, and the whole day."""

from collections.abc import Sequence

import dagster as dg

from features.worlds import World
from orchestration.publishing import asset_key


def world_jobs(world: World) -> Sequence["dg.UnresolvedAssetJobDefinition"]:
    """Jobs `ingest`, `features` and `gem` for the groups, `tables` (range runs), and `daily` (everything of a day)."""
    groups = {name: dg.AssetSelection.groups(name) for name in ("ingest", "features", "gem")}
    tables = groups["ingest"] | groups["features"]
    return [
        dg.define_asset_job("ingest_job", groups["ingest"], description="Raw log to gated tables."),
        dg.define_asset_job("features_job", groups["features"], description="Tables to examples."),
        dg.define_asset_job("gem_job", groups["gem"], description="Train, judge and release GEM."),
        dg.define_asset_job("tables_job", tables, description="All tables; may run as a range."),
        dg.define_asset_job(
            "daily_job",
            tables | groups["gem"],
            description=f"A whole day of {world.title}, from raw log to release; the daily retrain.",
        ),
    ]


def first_output(world: World) -> dg.AssetKey:
    """The asset whose newest partition is the newest ingested day."""
    return asset_key(world, "impressions")
