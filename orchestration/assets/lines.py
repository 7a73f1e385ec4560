"""A line of models after training, the same for GEM and every vertical: predictions, evaluation, decision.

These never run as a range: a backfill is single days in date order, since each continues from the one before it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from features.home import Home
from features.worlds import World
from features.worlds.schema import GEM
from orchestration.partitions import day_axis
from orchestration.publishing import Events, plain_failure, publish_frame, table_options
from orchestration.publishing import asset_key as world_key
from orchestration.resources import WorldResource

if TYPE_CHECKING:
    from features.tables import ModelDecision
    from training.lines import Line

GATE = "gate"
REJECTED = "rejected"
"""Marks, in a failure's metadata, a run that ends red because the gate said no."""


@dataclass(frozen=True)
class Stages:
    """Keys of one line's assets.

    Attributes:
        line: name of the line.
        group: of its assets.
        model: the trained model of a day.
        predictions: what was predicted before training.
        evaluation: the judgement.
        release: the decision.
    """

    line: str
    group: str
    model: dg.AssetKey
    predictions: dg.AssetKey
    evaluation: dg.AssetKey
    release: dg.AssetKey


def judged_assets(world: World, stages: Stages) -> Sequence[dg.AssetsDefinition]:
    """Predictions, evaluation and release of a line."""
    table = "predictions" if stages.line == GEM else f"predictions_{stages.line}"
    common: dict[str, Any] = {
        "partitions_def": day_axis(world),
        "group_name": stages.group,
        "owners": ["team:ads-ranking"],
        "kinds": {"python"},
    }
    options = table_options(
        world,
        table,
        stages.group,
        key=stages.predictions,
        deps=[stages.model],
        backfill_policy=dg.BackfillPolicy.multi_run(1),
    )

    @dg.asset(**options)
    def predictions(context: dg.AssetExecutionContext, gemline: WorldResource) -> Events:
        """Probabilities given before training on a row, by the candidate on every walked day and by the incumbent."""
        from training.predictions import predictions as compute

        with plain_failure():
            tables, ds = gemline.tables(), context.partition_key
            folder, manifest = trained(gemline.home, stages.line, ds)
            incumbent = tables.decisions.incumbent(stages.line, ds)
            frame = compute(tables.spark, ds, folder, manifest, incumbent.digest if incumbent else None)
            yield from publish_frame(context, gemline, table, frame, key=stages.predictions)

    @dg.asset(key=stages.evaluation, deps=[predictions, world_key(world, "labels")], **common)
    def evaluation(context: dg.AssetExecutionContext, gemline: WorldResource) -> dg.MaterializeResult:
        """Metrics of what became due on the day, as served, and candidate against incumbent on identical rows."""
        from training.judgement import judge

        ds = context.partition_key
        with plain_failure():
            manifest = trained(gemline.home, stages.line, ds)[1]
            about = {"digest": manifest["digest"], "generation": manifest["generation"]}
            judgement = judge(gemline.tables(), line_of(world, stages.line), ds, manifest["digest"], world.look_back)
            judgement.write(evaluation_file(gemline.home, stages.line, ds), **about)
        decision = judgement.decision
        return dg.MaterializeResult(
            metadata={
                **judgement.plotted(),
                "digest": manifest["digest"],
                "tables": dg.MetadataValue.md(judgement.markdown()),
                "decision": f"{decision.kind}: {decision.reason}",
            }
        )

    gate = dg.AssetCheckSpec(
        GATE,
        asset=stages.release,
        blocking=True,
        partitions_def=day_axis(world),
        description="Candidate not worse than the incumbent on identical rows, beyond the paired interval.",
    )

    @dg.asset(key=stages.release, deps=[evaluation], check_specs=[gate], **common)
    def release(context: dg.AssetExecutionContext, gemline: WorldResource) -> Events:
        """The decision of the day; a rejected model leaves the live one live and the run red."""
        from orchestration.releasing import decide, go_live

        ds, line = context.partition_key, stages.line
        with plain_failure():
            tables = gemline.tables()
            folder, manifest = trained(gemline.home, line, ds)
            judged = json.loads(evaluation_file(gemline.home, line, ds).read_text(encoding="utf-8"))
            made = decide(tables, line, ds, manifest["digest"], folder, judged)
            live = line == GEM and go_live(gemline.home, made, made.digest, made.path)
        shown = {"decision": made.decision, "reason": made.reason, "digest": made.digest}
        context.log.info("%s of %s is %s: %s", line, ds, made.decision, made.reason)
        yield dg.AssetCheckResult(passed=made.decision != "rejected", check_name=GATE, metadata=shown)
        if made.decision == "rejected":
            raise dg.Failure(_rejected(gemline.home, made), metadata={REJECTED: True}, allow_retries=False)
        yield dg.MaterializeResult(metadata=shown | ({"live": live} if line == GEM else {}))

    return [predictions, evaluation, release]


def _rejected(home: Home, made: "ModelDecision") -> str:
    """What a rejection says, also of a live model that was judged again."""
    from serving import releases

    live = releases.live(home.releases, made.model)
    if live is not None and live.ds == made.ds:
        mend = f"a release of that day is live; if it is worse, run gemline rollback --model {made.model} --reason ..."
    else:
        mend = "the live release stays"
    return f"{made.model} of {made.ds} is rejected: {made.reason}; {mend}"


def line_of(world: World, name: str) -> "Line":
    """GEM's line or a vertical's."""
    from training.lines import gem_line, vertical_line

    return gem_line(world) if name == GEM else vertical_line(world, name)


def evaluation_file(home: Home, line: str, ds: str) -> Path:
    """Where a day's judgement is kept."""
    return home.releases / line / "evaluations" / f"{ds}.json"


def evaluations_of(world: World, home: Home, ds: str) -> dict[str, dict[str, Any]]:
    """Judgements of a day by line, of the lines that were judged."""
    lines = (GEM, *(vertical.name for vertical in world.verticals))
    files = {line: evaluation_file(home, line, ds) for line in lines}
    return {line: json.loads(path.read_text(encoding="utf-8")) for line, path in files.items() if path.exists()}


def trained(home: Home, line: str, ds: str) -> tuple[Path, dict[str, Any]]:
    """Folder and manifest of the newest committed attempt at a line's day.

    Raises:
        GemlineError: there is none.
    """
    from features.errors import GemlineError
    from training.checkpoint import manifest_of, newest

    folder = newest(home.checkpoints / line / ds)
    if folder is None:
        raise GemlineError(f"{line} of {ds} was never trained to its end; materialize its model first")
    return folder, manifest_of(folder)


def model_metadata(manifest: dict[str, Any]) -> dict[str, Any]:
    """What the UI shows of a trained model."""
    metrics = manifest["metrics"]
    return {
        "digest": manifest["digest"],
        "parent": (manifest["parent"] or {}).get("digest", "none (cold start)"),
        "generation": manifest["generation"] or "none",
        "scored": metrics["scored"],
        "trained": metrics["trained"],
        "steps": metrics["steps"],
        "seconds": metrics["seconds"],
        "walk": f"{len(metrics['days'])} days",
        **_shares(metrics["days"]),
    }


def _shares(days: dict[str, Any]) -> dict[str, float]:
    """Each task's share of loss and of the trunk's gradient on the last walked day with labels; the UI plots them."""
    trained = [days[day]["shares"] for day in sorted(days) if days[day]["shares"]]
    if not trained:
        return {}
    return {f"{what}_share/{task}": share for what, shares in trained[-1].items() for task, share in shares.items()}
