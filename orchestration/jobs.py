"""Jobs: one a stage group, the range-capable tables, and the whole day."""

from collections.abc import Sequence

import dagster as dg

from features.worlds import World
from orchestration.publishing import asset_key


def world_jobs(world: World) -> Sequence["dg.UnresolvedAssetJobDefinition"]:
    """One job a stage; `tables` and `transfer` may run as ranges; `daily` is everything of a day."""
    groups = {name: dg.AssetSelection.groups(name) for name in ("ingest", "features", "gem", "solaris", "release")}
    tables = groups["ingest"] | groups["features"]
    transfer = dg.AssetSelection.assets(asset_key(world, "fm_outputs")) | groups["solaris"]
    generation = dg.AssetSelection.assets(asset_key(world, "fm_generation"))
    verticals = dg.AssetSelection.groups(*(vertical.name for vertical in world.verticals)) | groups["release"]
    return [
        dg.define_asset_job("ingest_job", groups["ingest"], description="Raw log to gated tables."),
        dg.define_asset_job("features_job", groups["features"], description="Tables to examples."),
        dg.define_asset_job("gem_job", groups["gem"], description="Train, judge and release GEM."),
        dg.define_asset_job("tables_job", tables, description="All tables; may run as a range."),
        dg.define_asset_job("generation_job", generation, description="Freeze a promoted GEM as a generation."),
        dg.define_asset_job(
            "transfer_job", transfer, description="What the frozen GEM says of a day; may run as a range."
        ),
        dg.define_asset_job("verticals_job", verticals, description="Train, judge, release and package verticals."),
        dg.define_asset_job(
            "daily_job",
            tables | groups["gem"] | transfer | verticals,
            description=f"A whole day of {world.title}, from raw log to live packages; the daily retrain.",
        ),
    ]


def first_output(world: World) -> dg.AssetKey:
    """The asset whose newest partition is the newest ingested day."""
    return asset_key(world, "impressions")
