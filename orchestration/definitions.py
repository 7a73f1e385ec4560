"""Dagster's entry point: `orchestration.definitions.<world>` is the Definitions of a world, one code location each."""

import warnings
from functools import cache

import dagster as dg

from features.worlds import load_world, world_names
from orchestration.assets import all_assets
from orchestration.console import plain
from orchestration.jobs import world_jobs
from orchestration.resources import WorldResource
from orchestration.schedules import daily_retrain

for _category in (dg.PreviewWarning, dg.BetaWarning):
    warnings.filterwarnings("ignore", category=_category)


@cache
def build(world_name: str) -> dg.Definitions:
    """Assets, jobs, schedule and resources of a world.

    Raises:
        WorldError: the world file does not fit; the message names the field.
    """
    world = load_world(world_name)
    return dg.Definitions(
        assets=all_assets(world),
        jobs=world_jobs(world),
        schedules=[daily_retrain(world)],
        resources={"gemline": WorldResource(world_name=world.name), "pipes": dg.PipesSubprocessClient()},
        loggers={"console": dg.colored_console_logger, "plain": plain},
        # one JVM for all steps of a run
        executor=dg.in_process_executor,
    )


def __getattr__(name: str) -> dg.Definitions:
    """A world's Definitions by its name (PEP 562)."""
    if name.startswith("_") or name not in world_names():
        raise AttributeError(f"no world '{name}'; known: {', '.join(world_names())}")
    return build(name)
