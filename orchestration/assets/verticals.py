"""Verticals, by a factory from the world file: each a small model of its own, judged, packaged and live by itself."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from features.worlds import World
from features.worlds.schema import Vertical
from orchestration.assets.lines import Stages, judged_assets, model_metadata, trained
from orchestration.partitions import day_axis, history_before
from orchestration.publishing import asset_key, plain_failure
from orchestration.resources import WorldResource


class VerticalTraining(dg.Config):
    """Hyper-parameters of a training run; what is left empty comes from the recipe."""

    recipe: str = Field(default="", description="Function of training/recipes.py; empty: the vertical's own.")
    overrides: dict[str, Any] = Field(
        default_factory=dict,
        description="Fields of the recipe to change: batch_size, dense_lr, distill_weight, model.auxiliary_gradient",
    )
    look_back: int = Field(default=0, ge=0, description="Days that a cold start walks; 0: look_back of the world file.")
    seed: int = Field(default=7, description="Of initial weights and row order.")


def vertical_assets(world: World) -> Sequence[dg.AssetsDefinition]:
    """Model, predictions, evaluation, release and package of every vertical."""
    return [asset for vertical in world.verticals for asset in _one(world, vertical)]


def stages_of(world: World, vertical: str) -> Stages:
    """Keys of a vertical's assets."""
    names = ("model", "predictions", "evaluation", "release")
    return Stages(vertical, vertical, *(asset_key(world, vertical, name) for name in names))


def _one(world: World, vertical: Vertical) -> Sequence[dg.AssetsDefinition]:
    stages = stages_of(world, vertical.name)
    common: dict[str, Any] = {
        "partitions_def": day_axis(world),
        "group_name": vertical.name,
        "owners": ["team:ads-ranking"],
    }
    needed = ("examples", "labels", "fm_outputs", "solaris_train_vectors")
    history = dg.AssetDep(asset_key(world, "user_history"), partition_mapping=history_before(world))

    @dg.asset(
        key=stages.model,
        deps=[*(asset_key(world, name) for name in needed), history],
        kinds={"torch"},
        pool="training",
        **common,
    )
    def model(
        context: dg.AssetExecutionContext,
        config: VerticalTraining,
        gemline: WorldResource,
        pipes: dg.PipesSubprocessClient,
    ) -> dg.MaterializeResult:
        """A small model: labels, a teacher, memories and precomputed vectors of one generation; one plain process."""
        from training.chain import output_folder
        from training.launch import plain_command
        from training.lines import vertical_line
        from training.recipes import recipe
        from training.run import trained_before
        from training.verticals.planning import vertical_plan

        ds = context.partition_key
        with plain_failure():
            tables, line = gemline.tables(), vertical_line(world, vertical.name)
            chosen = recipe(config.recipe or line.recipe, config.overrides)
            plan = vertical_plan(tables, line, ds, chosen, config.seed, config.look_back or world.look_back)
            if trained_before(plan, 1):
                context.log.info("%s of %s: this plan was trained by this code before", line.name, ds)
            else:
                path = plan.write(output_folder(tables, line.name, ds) / "plan.json")
                pipes.run(context=context, command=plain_command(path))
            manifest = trained(gemline.home, line.name, ds)[1]
        return dg.MaterializeResult(metadata=model_metadata(manifest), data_version=dg.DataVersion(manifest["digest"]))

    @dg.asset(key=asset_key(world, vertical.name, "package"), deps=[stages.release], kinds={"torch"}, **common)
    def package(context: dg.AssetExecutionContext, gemline: WorldResource) -> dg.MaterializeResult:
        """What a promoted model is served as, checked to give the trainer's probabilities; then it goes live."""
        from orchestration.packaging import package_promoted

        with plain_failure():
            shown = package_promoted(gemline.tables(), vertical.name, context.partition_key)
        return dg.MaterializeResult(metadata=shown)

    return [model, *judged_assets(world, stages), package]
