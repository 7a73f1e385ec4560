"""Running jobs from a shell: in this process, recorded in the same Dagster instance that the UI shows.

One process means one JVM for a whole range of tables and for any number of days after it.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import dagster as dg
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
)

from features.errors import GemlineError
from features.home import Home
from features.worlds import load_world
from features.worlds.schema import GEM
from orchestration.assets.lines import REJECTED
from orchestration.definitions import build
from serving import releases


@dataclass(frozen=True)
class StepTime:
    """Wall time of one step of a run."""

    run: str
    step: str
    seconds: float


class Rejected(GemlineError):
    """A run ended red and for no other reason than that the gate rejected a model.

    Attributes:
        steps: that the run made.
    """

    def __init__(self, message: str, steps: Sequence[StepTime]) -> None:
        """Keep the steps beside the sentence."""
        super().__init__(message)
        self.steps = list(steps)


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


def run_judged(world_name: str, job: str, ds: str, say: Callable[[str], None]) -> list[StepTime]:
    """Run a job of a day; a rejected model ends its run red, which is an outcome to tell and no fault.

    Raises:
        GemlineError: the run failed for another reason.
    """
    try:
        return run_day(world_name, job, ds)
    except Rejected as error:
        say(f"{ds}: {error}")
        return error.steps


def run_models(world_name: str, ds: str, say: Callable[[str], None]) -> list[str]:
    """Everything after the tables of a day: GEM, its first generation, transfer, and verticals once they can learn.

    Returns:
        The jobs that ran.

    Raises:
        GemlineError: a run failed for another reason than a rejected model.
    """
    from training.loopfm.generation import manifests

    world, home = load_world(world_name), Home.of(world_name)
    run_judged(world_name, "gem_job", ds, say)
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
        run_judged(world_name, "verticals_job", ds, say)
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
    steps = [
        StepTime(label, _shown(step.step_key, world_name), (step.end_time or 0) - (step.start_time or 0))
        for step in stats
    ]
    spent = sum(step.seconds for step in steps)
    steps = [*steps, StepTime(label, "(between steps)", max(time.time() - started - spent, 0.0))]
    if not result.success:
        _raise(f"{job} of {label}", result, steps)
    return steps


def _raise(what: str, result: dg.ExecuteInProcessResult, steps: Sequence[StepTime]) -> NoReturn:
    failed = [event for event in result.all_events if event.is_step_failure]
    if failed and all(_is_rejection(event) for event in failed):
        said = "; ".join(_sentence(event) for event in failed)
        raise Rejected(f"{what}: {said}", steps)
    raise GemlineError(f"{what} failed: {first_failure(result)}")


def _is_rejection(event: dg.DagsterEvent) -> bool:
    failure = event.step_failure_data.user_failure_data
    return failure is not None and REJECTED in failure.metadata


def _shown(step_key: str, world_name: str) -> str:
    return step_key.removeprefix(f"{world_name}__").replace("__", "/")


def first_failure(result: dg.ExecuteInProcessResult) -> str:
    """The first failed step that no gate rejected, else the first of all, with its own sentence."""
    failed = [event for event in result.all_events if event.is_step_failure]
    for event in [*(event for event in failed if not _is_rejection(event)), *failed]:
        return f"{event.step_key}: {_sentence(event)}"
    return "see the run in the Dagster UI"


def _sentence(event: dg.DagsterEvent) -> str:
    """What a failed step says: that of the innermost error, without Dagster's wrapping."""
    data = event.step_failure_data
    described = data.user_failure_data.description if data.user_failure_data else None
    error = data.error
    while error is not None and error.cause is not None:
        error = error.cause
    return (described or (error.message if error else "no message")).strip()
