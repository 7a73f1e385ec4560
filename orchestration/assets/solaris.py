"""Solaris: what will be asked for, computed ahead, and what of it training may see."""

from collections.abc import Sequence

import dagster as dg

from features.worlds import World
from orchestration.partitions import day_before
from orchestration.publishing import Events, asset_key, plain_failure, publish_frame, publish_table, table_options
from orchestration.resources import WorldResource


def solaris_assets(world: World) -> Sequence[dg.AssetsDefinition]:
    """Assets solaris_candidates, solaris_vectors and solaris_train_vectors."""
    shown = [asset_key(world, name) for name in ("impressions", "events")]

    @dg.asset(**table_options(world, "solaris_candidates", "solaris", deps=shown))
    def solaris_candidates(context: dg.AssetExecutionContext, gemline: WorldResource) -> Events:
        """Which (surface, user, ad) the run after the day computes; its planner sees nothing later."""
        from features.solaris import candidates

        yield from publish_table(context, gemline, "solaris_candidates", candidates)

    @dg.asset(
        **table_options(
            world,
            "solaris_vectors",
            "solaris",
            deps=[
                solaris_candidates,
                *(asset_key(world, name) for name in ("user_stats", "ad_stats", "user_history", "feature_store")),
                # by name: its day's outputs say which generations are kept filled
                asset_key(world, "fm_outputs"),
            ],
            kinds={"torch"},
        )
    )
    def solaris_vectors(context: dg.AssetExecutionContext, gemline: WorldResource) -> Events:
        """Frozen GEM's vector of each candidate with masked context, and each user's mean, ready to be looked up."""
        from orchestration.filling import publish_runs
        from orchestration.pinning import pinned_generations
        from training.solaris import solaris_vectors as compute

        with plain_failure():
            tables = gemline.tables()
            inputs = tables.inputs("solaris_vectors", context.partition_keys)
            with compute(tables, context.partition_keys, pinned_generations(tables)) as frame:
                yield from publish_frame(context, gemline, "solaris_vectors", frame, inputs=inputs)
            context.log.info("newest runs: %s", publish_runs(tables, context.partition_keys))

    runs = dg.AssetDep(solaris_vectors, partition_mapping=day_before())

    @dg.asset(**table_options(world, "solaris_train_vectors", "solaris", deps=[asset_key(world, "examples"), runs]))
    def solaris_train_vectors(context: dg.AssetExecutionContext, gemline: WorldResource) -> Events:
        """The vector that each request would have been answered with, or none: training sees what serving will."""
        from features.solaris import expected_train_rows, train_vectors

        yield from publish_table(context, gemline, "solaris_train_vectors", train_vectors, expected_train_rows)

    return [solaris_candidates, solaris_vectors, solaris_train_vectors]
