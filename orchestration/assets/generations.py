"""The foundation model's knowledge, frozen and written down: generations, and what they say of each impression."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from features.worlds import World
from orchestration.publishing import Events, asset_key, plain_failure, publish_frame, table_options
from orchestration.resources import WorldResource


class Freezing(dg.Config):
    """Which model becomes a generation."""

    ds: str = Field(default="", description="Day of a promoted GEM model; empty: the newest promoted one.")
    seed: int = Field(default=7, description="Of the autoencoder.")


def generation_assets(world: World) -> Sequence[dg.AssetsDefinition]:
    """Assets fm_generation (made on request, not by each retrain) and fm_outputs."""
    common: dict[str, Any] = {"group_name": "transfer", "owners": ["team:ads-ranking"]}

    @dg.asset(key=asset_key(world, "fm_generation"), deps=[asset_key(world, "gem_release")], kinds={"torch"}, **common)
    def fm_generation(
        context: dg.AssetExecutionContext, config: Freezing, gemline: WorldResource
    ) -> dg.MaterializeResult:
        """A promoted GEM and an autoencoder of its activations, frozen together; verticals pin one."""
        from orchestration.freezing import freeze_promoted

        with plain_failure():
            manifest = freeze_promoted(gemline.tables(), config.ds, config.seed)
        shown = {name: manifest[name] for name in ("name", "ds", "last_label_day", "width", "reconstruction")}
        return dg.MaterializeResult(
            metadata={**shown, "model": manifest["model"]["digest"]}, data_version=dg.DataVersion(manifest["digest"])
        )

    @dg.asset(
        **table_options(
            world, "fm_outputs", "transfer", deps=[asset_key(world, "examples"), fm_generation], kinds={"torch"}
        )
    )
    def fm_outputs(context: dg.AssetExecutionContext, gemline: WorldResource) -> Events:
        """Frozen GEM's logits and compressed representation of each impression; users are remembered by them."""
        from orchestration.filling import remember
        from orchestration.pinning import pinned_generations
        from training.loopfm.outputs import fm_outputs as compute

        with plain_failure():
            tables = gemline.tables()
            inputs = tables.inputs("fm_outputs", context.partition_keys)
            with compute(tables, context.partition_keys, pinned_generations(tables)) as (frame, expected):
                yield from publish_frame(context, gemline, "fm_outputs", frame, expected, inputs=inputs)
            context.log.info("remembered: %s", remember(tables, context.partition_keys))

    return [fm_generation, fm_outputs]
