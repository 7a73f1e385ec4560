"""The release report of a day: built whatever was decided, also when a release ends its run red."""

import dagster as dg

from features.worlds import World
from orchestration.partitions import day_axis
from orchestration.publishing import asset_key, plain_failure
from orchestration.reporting import ReportFacts, gather, report_file, write_report
from orchestration.resources import WorldResource

LAST = {"dagster/priority": "-100"}
"""Of the steps that are ready the report is the last, so it shows the releases of its run, though it needs none."""


def report_assets(world: World) -> list[dg.AssetsDefinition]:
    """Asset release_report."""
    verticals = [dg.AssetKey([world.name, vertical.name, "evaluation"]) for vertical in world.verticals]

    @dg.asset(
        key=asset_key(world, "release_report"),
        # evaluations and not releases: a rejected model fails its release, and the report is there to say so
        deps=[asset_key(world, "gem_evaluation"), *verticals],
        partitions_def=day_axis(world),
        group_name="release",
        owners=["team:ads-ranking"],
        kinds={"python"},
        op_tags=LAST,
    )
    def release_report(context: dg.AssetExecutionContext, gemline: WorldResource) -> dg.MaterializeResult:
        """Decisions, quality, transfer, gates, features and lineage of a day as one HTML file to keep or to send."""
        ds = context.partition_key
        with plain_failure():
            facts = gather(gemline.tables(), gemline.home, world, ds)
            path = write_report(facts, report_file(gemline.home, ds))
        return dg.MaterializeResult(
            metadata={"path": dg.MetadataValue.path(str(path)), "decisions": dg.MetadataValue.md(_decisions(facts))}
        )

    return [release_report]


def _decisions(facts: ReportFacts) -> str:
    flag = " (synthetic data)" if facts.synthetic else ""
    return "\n".join(f"- **{line.name}**{flag}: {line.decision} - {line.reason}" for line in facts.lines)
