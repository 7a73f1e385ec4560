"""Running jobs from a shell: in this process, recorded in the same Dagster instance that the UI shows.

One process means one JVM for a whole range of tables and for any number of days after it.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
)

from features.errors import GemlineError
from features.home import Home
from features.worlds import World, load_world
from orchestration.assets.lines import GEM, evaluations_of
from orchestration.definitions import build
from serving import releases


@dataclass(frozen=True)
class StepTime:
    """Wall time of one step of a run."""

    run: str
    step: str
    seconds: float


def instance() -> dg.DagsterInstance:
    """The Dagster instance of `DAGSTER_HOME`.

    Raises:
        GemlineError: `DAGSTER_HOME` is unset or holds no dagster.yaml.
    """
    home = os.environ.get("DAGSTER_HOME")
    if not home or not (Path(home) / "dagster.yaml").exists():
        raise GemlineError(
            "DAGSTER_HOME is not set to a folder with a dagster.yaml; run through make, or `make home` and "
            "`export DAGSTER_HOME=$PWD/.gemline/dagster`"
        )
    return dg.DagsterInstance.get()


def run_range(world_name: str, job: str, first: str, last: str) -> list[StepTime]:
    """Run a job once over all days from `first` to `last`.

    Raises:
        GemlineError: the run failed; carries the first failed step's own sentence.
    """
    return _recorded(world_name, job, f"{first}..{last}", first=first, last=last)


def run_day(world_name: str, job: str, ds: str) -> list[StepTime]:
    """Run a job for one day.

    Raises:
        GemlineError: as `run_range`.
    """
    return _recorded(world_name, job, ds, partition_key=ds)


def run_once(world_name: str, job: str, run_config: Mapping[str, Any]) -> list[StepTime]:
    """Run a job that belongs to no day.

    Raises:
        GemlineError: as `run_range`.
    """
    return _recorded(world_name, job, "once", run_config=run_config)


def run_judged(world: World, job: str, ds: str, say: Callable[[str], None]) -> list[StepTime]:
    """Run a job of a day; a rejected model ends its run red, which is an outcome to tell and no fault.

    Raises:
        GemlineError: the run failed for another reason.
    """
    try:
        return run_day(world.name, job, ds)
    except GemlineError as error:
        judged = evaluations_of(world, Home.of(world.name), ds).values()
        if "rejected" not in {found["decision"]["kind"] for found in judged}:
            raise
        say(f"{ds}: {error}")
        return []


def run_models(world_name: str, ds: str, say: Callable[[str], None]) -> list[str]:
    """Everything after the tables of a day: GEM, its first generation, transfer, and verticals once they can learn.

    Returns:
        The jobs that ran.

    Raises:
        GemlineError: a run failed for another reason than a rejected model.
    """
    from training.loopfm.generation import manifests

    world, home = load_world(world_name), Home.of(world_name)
    run_judged(world, "gem_job", ds, say)
    done = ["gem_job"]
    if not world.verticals:
        return done
    if not manifests(home):
        if releases.live(home.releases, GEM) is None:
            return done
        run_once(world_name, "generation_job", {})
        done.append("generation_job")
    run_day(world_name, "transfer_job", ds)
    done.append("transfer_job")
    if min(manifest["ds"] for manifest in manifests(home)) < ds:
        run_judged(world, "verticals_job", ds, say)
        done.append("verticals_job")
    return done


def execute(
    defs: dg.Definitions,
    job: str,
    shared: dg.DagsterInstance,
    *,
    partition_key: str | None = None,
    first: str | None = None,
    last: str | None = None,
    selection: Sequence[dg.AssetKey] | None = None,
    run_config: Mapping[str, Any] | None = None,
) -> dg.ExecuteInProcessResult:
    """Run a job in this process for one day, or once over a range of days; a failure comes back in the result."""
    tags = {ASSET_PARTITION_RANGE_START_TAG: first, ASSET_PARTITION_RANGE_END_TAG: last} if first and last else {}
    return defs.resolve_job_def(job).execute_in_process(
        instance=shared,
        partition_key=partition_key,
        tags=tags,
        asset_selection=selection,
        run_config={"loggers": {"plain": {}}, **(run_config or {})},
        raise_on_error=False,
    )


def _recorded(world_name: str, job: str, label: str, **how: Any) -> list[StepTime]:
    started = time.time()
    with instance() as shared:
        result = execute(build(world_name), job, shared, **how)
        stats = shared.get_run_step_stats(result.run_id)
    if not result.success:
        raise GemlineError(f"{job} of {label} failed: {first_failure(result)}")
    steps = [
        StepTime(label, _shown(step.step_key, world_name), (step.end_time or 0) - (step.start_time or 0))
        for step in stats
    ]
    spent = sum(step.seconds for step in steps)
    return [*steps, StepTime(label, "(between steps)", max(time.time() - started - spent, 0.0))]


def _shown(step_key: str, world_name: str) -> str:
    return step_key.removeprefix(f"{world_name}__").replace("__", "/")


def first_failure(result: dg.ExecuteInProcessResult) -> str:
    """The first failed step and its own sentence: that of the innermost error, without Dagster's wrapping."""
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            described = data.user_failure_data.description if data.user_failure_data else None
            error = data.error
            while error is not None and error.cause is not None:
                error = error.cause
            return f"{event.step_key}: {described or (error.message if error else 'no message')}".strip()
    return "see the run in the Dagster UI"
