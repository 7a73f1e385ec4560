"""The demonstration: the whole graph once, a scored request, and where the time went."""

import json
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from features.errors import GemlineError
from features.home import Home
from features.worlds import World, load_world
from orchestration.assets.lines import evaluations_of
from orchestration.reporting import report_file
from orchestration.resources import WorldResource
from orchestration.running import StepTime, run_day, run_judged, run_once, run_range

Say = Callable[[str], None]


def demo(world_name: str, say: Say) -> None:
    """Run the world's demonstration from its first day; running it again changes no content.

    Raises:
        GemlineError: the world file names no demo days, or a run failed.
    """
    world = load_world(world_name)
    days = world.demo
    if days is None:
        raise GemlineError(f"world {world_name} names no demo days (demo: tables_until, frozen, models, next)")
    started = time.time()
    say(f"{world.title}{' (synthetic)' if world.synthetic else ''}: {world.first_day} to {days.next}")
    say(f"1/6 tables {world.first_day}..{days.tables_until} in one range run")
    steps = run_range(world_name, "tables_job", world.first_day, days.tables_until)
    say(f"2/6 {days.frozen}: GEM from nothing; promoted, it is frozen as a generation")
    steps += run_day(world_name, "gem_job", days.frozen)
    steps += run_once(world_name, "generation_job", freezing(world, days.frozen))
    say(f"3/6 what the frozen GEM says of {days.frozen}..{days.tables_until}: outputs, memories, precomputed vectors")
    steps += run_range(world_name, "transfer_job", days.frozen, days.tables_until)
    say(f"4/6 {days.models}: GEM continues from {days.frozen}; verticals learn from the generation and go live")
    steps += run_judged(world_name, "gem_job", days.models, say)
    steps += run_judged(world_name, "verticals_job", days.models, say)
    say(f"5/6 {days.next}: a whole day, from raw log to live packages")
    steps += run_judged(world_name, "daily_job", days.next, say)
    home = Home.of(world_name)
    say(summary(world, home))
    say("\n6/6 a request, scored from the online store and the cache by a live package\n")
    say(scored_request(world, home))
    say(_where_time_went(steps, time.time() - started))
    say(f"release report: {report_file(home, days.next)}")


def freezing(world: World, ds: str) -> dict[str, Any]:
    """Run config that freezes the promoted GEM of a day."""
    return {"ops": {f"{world.name}__fm_generation": {"config": {"ds": ds}}}}


def summary(world: World, home: Home) -> str:
    """Decisions and metrics of the demo's days, as Markdown."""
    assert world.demo is not None
    parts = []
    for ds in (world.demo.frozen, world.demo.models, world.demo.next):
        for line, found in evaluations_of(world, home, ds).items():
            decision = found["decision"]
            parts.append(f"\n## {ds} {line}: {decision['kind']} - {decision['reason']}\n")
            # what led there is in the report
            parts += [found["markdown"]] if ds == world.demo.next else []
    return "\n".join(parts)


def scored_request(world: World, home: Home) -> str:
    """A known user, an unknown user and an unknown ad, scored by the first live vertical."""
    from orchestration.scoring import example_request, scored
    from serving import releases

    tables = WorldResource(world_name=world.name).tables()
    for vertical in world.verticals:
        if releases.live(home.releases, vertical.name):
            request = example_request(tables, vertical.name)
            return f"{json.dumps(request)}\n\n{json.dumps(scored(world, home, request), indent=1)}"
    return "no vertical is live: none was promoted, and the report says why"


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
