"""GEM, a day at a time: trained under torchrun, then judged and released as every line of models is."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from features.worlds import World
from orchestration.assets.lines import GEM, Stages, judged_assets, model_metadata, trained
from orchestration.partitions import day_axis, history_before
from orchestration.publishing import asset_key, plain_failure
from orchestration.resources import WorldResource


class GemTraining(dg.Config):
    """Hyper-parameters of a training run; what is left empty comes from the recipe."""

    recipe: str = Field(default="", description="Function of training/recipes.py; empty: the recipe of the world file.")
    overrides: dict[str, Any] = Field(
        default_factory=dict,
        description="Fields of the recipe to change: batch_size, dense_lr, table_lr, model.dim, model.history_length",
    )
    look_back: int = Field(default=0, ge=0, description="Days that a cold start walks; 0: look_back of the world file.")
    processes: int = Field(default=2, ge=1, description="torchrun processes on this machine.")
    seed: int = Field(default=7, description="Of initial weights and row order.")


def gem_assets(world: World) -> Sequence[dg.AssetsDefinition]:
    """Assets gem_model, predictions, gem_evaluation and gem_release."""
    common: dict[str, Any] = {"partitions_def": day_axis(world), "group_name": "gem", "owners": ["team:ads-ranking"]}
    history = dg.AssetDep(asset_key(world, "user_history"), partition_mapping=history_before(world))

    @dg.asset(
        key=asset_key(world, "gem_model"),
        deps=[asset_key(world, "examples"), asset_key(world, "labels"), history],
        kinds={"torch", "torchrec"},
        pool="training",
        **common,
    )
    def gem_model(
        context: dg.AssetExecutionContext, config: GemTraining, gemline: WorldResource, pipes: dg.PipesSubprocessClient
    ) -> dg.MaterializeResult:
        """The foundation model: continues from the newest accepted one, tests each day, then trains on it."""
        from training.chain import lineage, output_folder, trainer_plan
        from training.launch import command
        from training.lines import gem_line
        from training.recipes import recipe
        from training.run import trained_before

        ds = context.partition_key
        with plain_failure():
            tables, line = gemline.tables(), gem_line(world)
            chosen = recipe(config.recipe or line.recipe, config.overrides)
            found = lineage(tables, line.name, ds, config.look_back or world.look_back)
            output = output_folder(tables, line.name, ds)
            plan = trainer_plan(tables, line, ds, chosen, config.seed, found)
            if trained_before(plan, config.processes):
                context.log.info("%s of %s: this plan was trained by this code before", line.name, ds)
            else:
                path = plan.write(output / "plan.json")
                pipes.run(context=context, command=command(path, config.processes))
            manifest = trained(gemline.home, line.name, ds)[1]
        return dg.MaterializeResult(metadata=model_metadata(manifest), data_version=dg.DataVersion(manifest["digest"]))

    return [gem_model, *judged_assets(world, gem_stages(world))]


def gem_stages(world: World) -> Stages:
    """Names of GEM's assets, which stand beside the tables."""
    return Stages(
        line=GEM,
        group="gem",
        model=asset_key(world, "gem_model"),
        predictions=asset_key(world, "predictions"),
        evaluation=asset_key(world, "gem_evaluation"),
        release=asset_key(world, "gem_release"),
    )
