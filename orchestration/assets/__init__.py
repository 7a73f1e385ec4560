"""The graph, one file a stage; every function here builds the assets of one world."""

from collections.abc import Sequence

import dagster as dg

from features.worlds import World
from orchestration.assets.examples import example_assets
from orchestration.assets.feature_store import feature_store_assets
from orchestration.assets.gem import gem_assets
from orchestration.assets.generations import generation_assets
from orchestration.assets.ingest import ingest_assets
from orchestration.assets.report import report_assets
from orchestration.assets.solaris import solaris_assets
from orchestration.assets.statistics import statistics_assets
from orchestration.assets.verticals import vertical_assets


def all_assets(world: World) -> Sequence[dg.AssetsDefinition]:
    """Every asset of a world."""
    return [
        *ingest_assets(world),
        *statistics_assets(world),
        *feature_store_assets(world),
        *example_assets(world),
        *gem_assets(world),
        *generation_assets(world),
        *solaris_assets(world),
        *vertical_assets(world),
        *report_assets(world),
    ]
