"""GEM, a day at a time: train, publish what was predicted before training, judge, decide and release.

These never run as a range: a backfill is single days in date order, since each continues from the one before it.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from features.home import Home
from features.worlds import World
from orchestration.partitions import day_axis, day_before
from orchestration.publishing import Events, asset_key, plain_failure, publish_frame, table_options
from orchestration.resources import WorldResource

MODEL = "gem"
GATE = "gate"


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
    history = dg.AssetDep(asset_key(world, "user_history"), partition_mapping=day_before())

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
        from training.recipes import recipe

        ds = context.partition_key
        with plain_failure():
            tables = gemline.tables()
            chosen = recipe(config.recipe or world.recipe, config.overrides)
            found = lineage(tables, MODEL, ds, config.look_back or world.look_back)
            output = output_folder(tables, MODEL, ds)
            plan = trainer_plan(tables, MODEL, ds, chosen, config.seed, found).write(output / "plan.json")
            pipes.run(context=context, command=command(plan, config.processes))
            return dg.MaterializeResult(
                metadata=_model_metadata(output), data_version=dg.DataVersion(_manifest(output)[1]["digest"])
            )

    @dg.asset(
        **table_options(world, "predictions", "gem", deps=[gem_model], backfill_policy=dg.BackfillPolicy.multi_run(1))
    )
    def predictions(context: dg.AssetExecutionContext, gemline: WorldResource) -> Events:
        """Probabilities given before training on a row, by the candidate on every walked day and by the incumbent."""
        from training.predictions import predictions as compute

        with plain_failure():
            tables, ds = gemline.tables(), context.partition_key
            folder, manifest = _manifest(tables.home.checkpoints / MODEL / ds)
            incumbent = tables.decisions.incumbent(MODEL, ds)
            frame = compute(tables.spark, ds, folder, manifest, incumbent.digest if incumbent else None)
            yield from publish_frame(context, gemline, "predictions", frame)

    @dg.asset(
        key=asset_key(world, "gem_evaluation"),
        deps=[predictions, asset_key(world, "labels")],
        kinds={"python"},
        **common,
    )
    def gem_evaluation(context: dg.AssetExecutionContext, gemline: WorldResource) -> dg.MaterializeResult:
        """Metrics of what became due on the day, as served, and candidate against incumbent on identical rows."""
        from training.judgement import judge

        ds = context.partition_key
        with plain_failure():
            tables = gemline.tables()
            digest = _manifest(tables.home.checkpoints / MODEL / ds)[1]["digest"]
            judgement = judge(tables, MODEL, ds, digest, world.look_back)
            judgement.write(evaluation_file(gemline.home, ds))
        return dg.MaterializeResult(
            metadata={
                **judgement.plotted(),
                "digest": digest,
                "tables": dg.MetadataValue.md(judgement.markdown()),
                "decision": f"{judgement.decision.kind}: {judgement.decision.reason}",
            }
        )

    @dg.asset(
        key=asset_key(world, "gem_release"),
        deps=[gem_evaluation],
        kinds={"python"},
        check_specs=[
            dg.AssetCheckSpec(
                GATE,
                asset=asset_key(world, "gem_release"),
                blocking=True,
                partitions_def=day_axis(world),
                description="Candidate not worse than the incumbent on identical rows, beyond the paired interval.",
            )
        ],
        **common,
    )
    def gem_release(context: dg.AssetExecutionContext, gemline: WorldResource) -> Events:
        """The decision of the day: a promoted model goes live, a rejected one leaves the old one live, the run red."""
        from orchestration.releasing import release

        ds = context.partition_key
        with plain_failure():
            tables = gemline.tables()
            folder, manifest = _manifest(tables.home.checkpoints / MODEL / ds)
            decided = json.loads(evaluation_file(gemline.home, ds).read_text(encoding="utf-8"))
            made = release(tables, MODEL, ds, manifest["digest"], folder, decided)
        shown = {"decision": made.decision, "reason": made.reason, "digest": made.digest}
        yield dg.AssetCheckResult(passed=made.decision != "rejected", check_name=GATE, metadata=shown)
        if made.decision == "rejected":
            raise dg.Failure(f"{MODEL} of {ds} is rejected: {made.reason}; the live release stays", allow_retries=False)
        yield dg.MaterializeResult(metadata=shown)

    return [gem_model, predictions, gem_evaluation, gem_release]


def evaluation_file(home: Home, ds: str) -> Path:
    """Where a day's judgement is kept."""
    return home.releases / MODEL / "evaluations" / f"{ds}.json"


def _manifest(output: Path) -> tuple[Path, dict[str, Any]]:
    """Folder and manifest of the newest committed attempt."""
    from features.errors import GemlineError
    from training.checkpoint import manifest_of, newest

    folder = newest(output)
    if folder is None:
        raise GemlineError(f"{MODEL} of {output.name} was never trained to its end; materialize gem_model first")
    return folder, manifest_of(folder)


def _model_metadata(output: Path) -> dict[str, Any]:
    folder, manifest = _manifest(output)
    metrics = manifest["metrics"]
    return {
        "digest": manifest["digest"],
        "parent": (manifest["parent"] or {}).get("digest", "none (cold start)"),
        "scored": metrics["scored"],
        "trained": metrics["trained"],
        "steps": metrics["steps"],
        "seconds": metrics["seconds"],
        "walk": f"{len(metrics['days'])} days",
        "folder": dg.MetadataValue.path(str(folder)),
    }
