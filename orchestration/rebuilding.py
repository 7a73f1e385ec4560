"""Making stale content again: what of it is told, what that costs by the newest recorded runs, and how it is done."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from features.days import day_range, shift
from features.errors import GemlineError
from features.worlds.schema import GEM
from orchestration.running import instance, run_models, run_range
from orchestration.staleness import StaleModel, Staleness

if TYPE_CHECKING:
    from features.tables.lineage import StaleDay

Cost = Callable[[str], float | None]
"""Step of the graph -> seconds that one day of it took when it last ran; None when no run is recorded."""


def told(found: Staleness, world: str, cost: Cost = lambda _: None) -> str:
    """Stale tables and models, what making them again costs, and the command; one line when nothing is stale."""
    if not found.days and not found.models:
        return "nothing is stale: every table and model follows from what is published"
    lines = [*_tables_told(found.days, cost), *_models_told(found.models, cost)]
    more = " (--models trains the models again, too)" if found.models else ""
    return "\n".join([*lines, f"to make them again: gemline rebuild --world {world}{more}"])


def _tables_told(days: "Sequence[StaleDay]", cost: Cost) -> list[str]:
    by_table: dict[str, list[StaleDay]] = defaultdict(list)
    for day in days:
        by_table[day.table].append(day)
    lines = []
    for table, stale in by_table.items():
        because = sorted({name for day in stale for name in day.because})
        follows = sorted({name for day in stale for name in day.follows})
        reasons = [
            f"{', '.join(because)} restated" if because else "",
            f"follows {', '.join(follows)}" if follows else "",
        ]
        rows = sum(day.rows for day in stale)
        spans = ", ".join(_spans([day.ds for day in stale]))
        lines.append(
            f"{table} of {spans}: {'; '.join(filter(None, reasons))}"
            f" - {_counted(len(stale), 'day')}, {_counted(rows, 'row')}{_seconds(cost(table), len(stale))}"
        )
    return lines


def _models_told(models: Sequence[StaleModel], cost: Cost) -> list[str]:
    lines = []
    for model in models:
        why = [f"trained on superseded {', '.join(model.because)}" if model.because else ""]
        why += [f"follows {', '.join(model.follows)}" if model.follows else ""]
        step = "gem_model" if model.line == GEM else f"{model.line}__model"
        live = " (live)" if model.live else ""
        lines.append(f"{model.line} of {model.ds}{live}: {'; '.join(filter(None, why))}{_seconds(cost(step), 1)}")
    return lines


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _seconds(each: float | None, days: int) -> str:
    return "" if each is None else f", about {each * days:,.0f} s"


def _spans(days: Sequence[str]) -> list[str]:
    """Days in order, as ranges of calendar days that follow each other."""
    spans: list[list[str]] = []
    for ds in days:
        if spans and ds == shift(spans[-1][1], 1):
            spans[-1][1] = ds
        else:
            spans.append([ds, ds])
    return [first if first == last else f"{first}..{last}" for first, last in spans]


def recorded_cost(world: str, shared: "dg.DagsterInstance | None" = None) -> Cost:
    """Costs from the newest recorded run of each step; unknown where `DAGSTER_HOME` names no instance.

    Args:
        world: name of the world.
        shared: instance to ask; default: that of `DAGSTER_HOME`.
    """
    if shared is None:
        try:
            shared = instance()
        except GemlineError:
            return lambda _: None
    asked = shared

    def cost(step: str) -> float | None:
        event = asked.get_latest_materialization_event(dg.AssetKey([world, *step.split("__")]))
        run = asked.get_run_by_id(event.run_id) if event is not None else None
        stats = asked.get_run_step_stats(run.run_id, [f"{world}__{step}"]) if run is not None else []
        if run is None or not stats or stats[0].end_time is None or stats[0].start_time is None:
            return None
        return (stats[0].end_time - stats[0].start_time) / _days_of(run.tags)

    return cost


def _days_of(tags: Mapping[str, str]) -> int:
    """Number of days that a run covered."""
    first, last = tags.get(ASSET_PARTITION_RANGE_START_TAG), tags.get(ASSET_PARTITION_RANGE_END_TAG)
    return len(day_range(first, last)) if first and last else 1


def rebuild(world: str, found: Staleness, say: Callable[[str], None], *, models: bool) -> None:
    """Make stale tables again, as range runs, and with `models` the models of all stale days in date order.

    Raises:
        GemlineError: a run failed for another reason than a rejected model.
    """
    features = ("user_stats", "ad_stats", "user_history", "user_recent", "examples", "labels")
    transfer = ("fm_outputs", "solaris_candidates", "solaris_vectors", "solaris_train_vectors")
    for job, names in (("features_job", features), ("transfer_job", transfer)):
        window = found.range_of(names)
        if window is not None:
            say(f"{job} {window[0]}..{window[1]}")
            run_range(world, job, *window)
    for ds in sorted({model.ds for model in found.models}) if models else ():
        say(f"{ds}: {', '.join(run_models(world, ds, say))}")
