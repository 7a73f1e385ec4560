"""The graph, one file a stage; every function here builds the assets of one world."""

from collections.abc import Sequence

import dagster as dg

from features.worlds import World
from orchestration.assets.examples import example_assets
from orchestration.assets.feature_store import feature_store_assets
from orchestration.assets.gem import gem_assets
from orchestration.assets.ingest import ingest_assets
from orchestration.assets.statistics import statistics_assets


def all_assets(world: World) -> Sequence[dg.AssetsDefinition]:
    """Every asset of a world."""
    return [
        *ingest_assets(world),
        *statistics_assets(world),
        *feature_store_assets(world),
        *example_assets(world),
        *gem_assets(world),
    ]
