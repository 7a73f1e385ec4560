"""`gemline sweep`: which of the due rows a model should train on, found on few days."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from features.errors import GemlineError
from orchestration.day_option import DAY


@click.command()
@click.option("--world", default="complete_journey", show_default=True)
@click.option("--start", required=True, type=DAY, help="First label day of the small budget.")
@click.option("--end", required=True, type=DAY, help="Its last; labels of the later half of its days judge the mixes.")
@click.option(
    "--check-days",
    type=click.IntRange(min=0),
    help="Days after it on which the pick is checked; default: as many again, as far as published. 0: no check.",
)
@click.option("--tau", "taus", multiple=True, type=float, help="May be repeated; default: 1, 0.5 and 0.")
@click.option("--budget", "budgets", multiple=True, type=float, help="May be repeated; default: 1, 0.5 and 0.25.")
@click.option("--surface-tau", "own", multiple=True, help="SURFACE=TAU, in every mix; may be repeated.")
@click.option("--task-share", "tasks", multiple=True, help="TASK=SHARE of a task that is not primary, in every mix.")
@click.option("--recipe", "name", default="", help="A smaller one is cheaper; default: the recipe of the world file.")
@click.option("--set", "changes", multiple=True, help="FIELD=VALUE of the recipe, such as model.history_length=50.")
@click.option("--tolerance", default=0.2, show_default=True, help="Per cent of NE that the picked mix may lose.")
@click.option("--seed", default=7, show_default=True, help="Of initial weights and row order.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="JSON file; default: below the world's folder `sweeps`.",
)
def sweep(
    world: str,
    start: str,
    end: str,
    check_days: int | None,
    taus: Sequence[float],
    budgets: Sequence[float],
    own: Sequence[str],
    tasks: Sequence[str],
    name: str,
    changes: Sequence[str],
    tolerance: float,
    seed: int,
    out: Path | None,
) -> None:
    """Train GEM from a cold start with several data mixes, pick the cheapest that loses next to nothing, check it.

    Each mix, every pair of --tau and --budget, is walked over the same days and judged on identical rows by what it
    predicted before training on them. Later days say how the pick generalises. Nothing is released.
    """
    from features.home import Home
    from features.worlds import load_world
    from orchestration.doctor import require
    from orchestration.resources import WorldResource
    from orchestration.sweeping import Asked, require_possible, swept, written
    from training.recipes import recipe
    from training.sweep.grid import BUDGETS, TAUS, grid
    from training.sweep.trials import Rules

    if not tolerance >= 0:
        raise GemlineError(f"--tolerance {tolerance}: give a share of NE in per cent, 0 or above")
    loaded = load_world(world)
    shares = _pairs("--surface-tau", own, float), _pairs("--task-share", tasks, float)
    asked = Asked(
        start=start,
        end=end,
        check_days=check_days,
        mixes=grid(loaded.surface_names, taus or TAUS, budgets or BUDGETS, *shares),
        recipe=recipe(name or loaded.recipe, _pairs("--set", changes, yaml.safe_load)),
        rules=Rules(loaded.min_positives, tolerance / 100),
        seed=seed,
    )
    require_possible(loaded, asked)
    require(("java", "jars", "packages"))
    found = swept(WorldResource(world_name=loaded.name).tables(), asked, lambda line: click.echo(line, err=True))
    click.echo(found.markdown())
    default = Home.of(loaded.name).root / "sweeps" / f"mixing-{start}-{end}.json"
    click.echo(f"\nall numbers: {written(found, out or default)}")


def _pairs(option: str, given: Sequence[str], read: Callable[[str], Any]) -> dict[str, Any]:
    """NAME=VALUE texts as a mapping.

    Raises:
        GemlineError: one without a name or a value that can be read.
    """
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        try:
            if not (name and equals and value):
                raise ValueError
            found[name] = read(value)
        except (ValueError, yaml.YAMLError):
            raise GemlineError(f"{option} {text}: write NAME=VALUE, for example {_EXAMPLES[option]}") from None
    return found


_EXAMPLES = {"--surface-tau": "feed=0.5", "--task-share": "view=0.3", "--set": "model.history_length=50"}
