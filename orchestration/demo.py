"""The demonstration: tables of a whole range, then single days, then what came of it and where the time went."""

import json
import time
from collections import defaultdict
from collections.abc import Callable

from features.errors import GemlineError
from features.home import Home
from features.worlds import World, load_world
from orchestration.assets.gem import evaluation_file
from orchestration.running import StepTime, run_day, run_range

Say = Callable[[str], None]


def demo(world_name: str, say: Say) -> None:
    """Run the world's demonstration from its first day; running it again changes no content.

    Raises:
        GemlineError: the world file names no demo days, or a run failed.
    """
    world = load_world(world_name)
    if set(world.demo) != {"tables_until", "cold", "next"}:
        raise GemlineError(f"world {world_name} names no demo days (demo: tables_until, cold, next)")
    started = time.time()
    say(f"{world.title}{' (synthetic)' if world.synthetic else ''}: {world.first_day} to {world.demo['next']}")
    say(f"1/3 tables {world.first_day}..{world.demo['tables_until']} in one range run")
    steps = run_range(world_name, "tables_job", world.first_day, world.demo["tables_until"])
    say(f"2/3 {world.demo['cold']}: ingest, train from nothing over the look-back, judge, release")
    steps += _judged_day(world, world.demo["cold"], say)
    say(f"3/3 {world.demo['next']}: the next day continues from it and is judged against it")
    steps += _judged_day(world, world.demo["next"], say)
    say(report(world, Home.of(world_name)))
    say(_where_time_went(steps, time.time() - started))


def _judged_day(world: World, ds: str, say: Say) -> list[StepTime]:
    """Run a whole day; a rejected model ends its run red, which is an outcome to show and no fault of the demo."""
    try:
        return run_day(world.name, "daily_job", ds)
    except GemlineError as error:
        path = evaluation_file(Home.of(world.name), ds)
        if not path.exists() or json.loads(path.read_text(encoding="utf-8"))["decision"]["kind"] != "rejected":
            raise
        say(f"{ds}: {error}")
        return []


def report(world: World, home: Home) -> str:
    """Decisions and metrics of the demo's days, as Markdown."""
    lines = []
    for ds in (world.demo["cold"], world.demo["next"]):
        found = json.loads(evaluation_file(home, ds).read_text(encoding="utf-8"))
        lines += [f"\n## {ds}: {found['decision']['kind']} - {found['decision']['reason']}\n", found["markdown"]]
    return "\n".join(lines)


def _where_time_went(steps: list[StepTime], total: float) -> str:
    by_step: dict[str, dict[str, float]] = defaultdict(dict)
    runs = list(dict.fromkeys(step.run for step in steps))
    for step in steps:
        by_step[step.step][step.run] = step.seconds
    lines = ["\n## Where the time went (seconds)\n", f"| step | {' | '.join(runs)} |", "|---|" + "---:|" * len(runs)]
    for name, seconds in by_step.items():
        lines.append(f"| {name} | " + " | ".join(f"{seconds.get(run, 0.0):.1f}" for run in runs) + " |")
    lines.append(f"\ntotal {total:.0f} s")
    return "\n".join(lines)
