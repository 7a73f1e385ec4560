"""A sweep over data mixes of a world: its days, plans and labels, by the ledger, and the file that it leaves."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from features.days import shift
from features.errors import GemlineError
from features.worlds import World

if TYPE_CHECKING:
    from features.tables import Tables
    from training.mixing import Mixing
    from training.recipes import Recipe
    from training.sweep.legs import Leg
    from training.sweep.result import Sweep
    from training.sweep.run import Stage
    from training.sweep.trials import Rules


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a person asks a sweep for.

    Attributes:
        start: first label day.
        end: last label day of the small budget.
        check_days: label days after it that check the pick, 0 for none; None: as many as the small budget has, as far
            as they are published.
        mixes: no mixing first.
        recipe: of every arm.
        rules: what judges and picks.
        seed: of initial weights and row order.
    """

    start: str
    end: str
    check_days: int | None
    mixes: "Sequence[Mixing]"
    recipe: "Recipe"
    rules: "Rules"
    seed: int


def require_possible(world: World, asked: Asked) -> None:
    """Refuse what no table need be read for.

    Raises:
        GemlineError: too few days, or days outside of the world.
        MixingError: a mix names a surface or task that the world does not have.
        RecipeError: a recipe of another kind than GEM's.
    """
    from features.schema_of import schema_of
    from training.recipes import RecipeError
    from training.sweep.legs import small_leg

    small_leg(asked.start, asked.end)
    last = shift(asked.end, asked.check_days or 0)
    if asked.start < world.first_day or (world.last_day is not None and last > world.last_day):
        raise GemlineError(
            f"a sweep over {asked.start} to {last}, days of the check included: world {world.name} goes from "
            f"{world.first_day} to {world.last_day or 'today'}"
        )
    for mix in asked.mixes:
        mix.require_fits(schema_of(world))
    if asked.recipe.kind != "gem":
        raise RecipeError(f"recipe {asked.recipe.name} is of kind '{asked.recipe.kind}'; a sweep trains GEM")


def swept(tables: "Tables", asked: Asked, say: Callable[[str], None]) -> "Sweep":
    """Walk, judge and pick; arms are kept in `checkpoints/mixing-.../<day>`.

    Raises:
        GateClosed: a day is not published.
        GemlineError: as `training.sweep.run.sweep`.
    """
    from training.compute import join
    from training.quiet import quiet
    from training.sweep.legs import check_leg, small_leg
    from training.sweep.run import sweep

    leg = small_leg(asked.start, asked.end)
    days = len(leg.walk) + 1 if asked.check_days is None else asked.check_days
    if asked.check_days is None:
        days = published_after(tables, asked.end, days)
        say(f"the pick is checked on {days} later days" if days else f"no day after {asked.end} is published: no check")
    small = _stage(tables, asked, leg)
    later = _stage(tables, asked, check_leg(asked.end, days)) if days else None
    with quiet():
        return sweep(small, later, asked.mixes, asked.rules, tables.home.checkpoints, join(), say)


def published_after(tables: "Tables", end: str, most: int) -> int:
    """How many days right after `end`, at most so many, have both examples and labels."""
    have = set(tables.readable_days("examples")) & set(tables.readable_days("labels"))
    return next((days for days in range(most) if shift(end, days + 1) not in have), most)


def _stage(tables: "Tables", asked: Asked, leg: "Leg") -> "Stage":
    from training.chain import Lineage, trainer_plan
    from training.judging import due_pairs
    from training.lines import gem_line
    from training.sweep.run import Stage

    line = gem_line(tables.world)
    plan = trainer_plan(tables, line, leg.last, asked.recipe, asked.seed, Lineage(None, None, leg.walk))
    return Stage(leg, plan, due_pairs(tables, line, leg.judged_from, leg.last))


def written(found: "Sweep", path: Path) -> Path:
    """Write all that is known of a sweep as JSON; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found.to_json(), indent=1, allow_nan=False), encoding="utf-8")
    return path
