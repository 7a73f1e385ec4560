"""The `gemline` command. Every fault that a user can mend is one sentence and exit code 1."""

import os
import warnings
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from features.errors import GemlineError
from orchestration.compare_commands import compare
from orchestration.day_option import DAY
from orchestration.feature_commands import features
from orchestration.quality_commands import quality, rebuild, stale
from orchestration.sweep_commands import sweep
from orchestration.world_commands import world


class PlainErrors(click.Group):
    """A group that prints a GemlineError as its sentence."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except GemlineError as error:
            raise click.ClickException(str(error)) from error
        except PermissionError as error:
            sentence = f"{error}; give yourself that right, or set GEMLINE_HOME to a folder of yours"
            raise click.ClickException(sentence) from error


@click.group(cls=PlainErrors)
def main() -> None:
    """Run a GEM-style ads-ranking pipeline: tables, features, training, gates and releases of a world."""
    warnings.filterwarnings("ignore", message="Function|Class|Parameter")
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")


for command in (world, features, quality, stale, rebuild, compare, sweep):
    main.add_command(command)


@main.command()
def doctor() -> None:
    """Say what is missing or mismatched on this machine, and how to mend it."""
    from orchestration.doctor import report

    text, healthy = report()
    click.echo(text)
    if not healthy:
        raise SystemExit(1)


@main.command()
@click.option("--world", default="complete_journey", show_default=True, help="Name of a world.")
def demo(world: str) -> None:
    """Run the graph on a shipped world and show what came of it."""
    from orchestration.demo import demo as run_demo
    from orchestration.doctor import require

    require(("java", "jars", "packages"))
    run_demo(world, click.echo)


@main.command()
@click.option("--world", required=True, help="Name of a world, or the path of a world file, which is added first.")
@click.option("--start", required=True, type=DAY, help="First day of the tables.")
@click.option("--end", required=True, type=DAY, help="Last day.")
@click.option("--train-from", type=DAY, help="First day that trains and releases models; default: only the last day.")
def run(world: str, start: str, end: str, train_from: str | None) -> None:
    """Run the graph on your own logs: tables of all days in one range run, then models day by day in date order.

    The first promoted GEM is frozen as a generation; the verticals follow from the next day on.
    """
    from features.days import day_range
    from features.worlds import load_world
    from features.worlds.load import add_world
    from orchestration.doctor import require
    from orchestration.running import run_models, run_range

    days = day_range(train_from or end, end)
    if start > end or not days or (train_from is not None and train_from < start):
        raise GemlineError(
            f"--start {start}, --train-from {train_from or end}, --end {end}: give them in date order, or no day trains"
        )
    require(("java", "jars", "packages"))
    name = add_world(Path(world)).name if world.endswith((".yaml", ".yml")) else load_world(world).name
    run_range(name, "tables_job", start, end)
    for ds in days:
        click.echo(f"{ds}: {', '.join(run_models(name, ds, click.echo))}")


@main.command()
@click.argument("name")
@click.option("--world", default="complete_journey", show_default=True, help="Whose schema is counted on.")
@click.option("--candidates", default=20, show_default=True, help="Of each request.")
@click.option("--events", type=int, help="Of each history; default: as many as the recipe reads.")
def recipe(name: str, world: str, candidates: int, events: int | None) -> None:
    """Print a recipe's settings, parameters, FLOPs an example and memory in training."""
    from features.schema_of import schema_of
    from features.worlds import load_world
    from training import recipes, sizes

    found = recipes.recipe(name)
    size = sizes.size_of(found, schema_of(load_world(world)), candidates=candidates, events=events)
    click.echo(sizes.text(found, size))


@main.command()
@click.option("--world", default="complete_journey", show_default=True)
@click.option("--vertical", required=True, help="Whose live package answers.")
@click.option("--user", help="User id; without it the user is unknown.")
@click.option("--ad", "ads", multiple=True, required=True, help="Ad id; may be repeated.")
@click.option("--context", multiple=True, help="NAME=VALUE, a name of the world's context; may be repeated.")
@click.option("--surface", help="Needed where the vertical has several.")
@click.option(
    "--at", help="Replay worlds: an instant of the next day (ISO 8601 with a zone); default: the world's now."
)
def score(
    world: str,
    vertical: str,
    user: str | None,
    ads: Sequence[str],
    context: Sequence[str],
    surface: str | None,
    at: str | None,
) -> None:
    """Score ads for a user as the scoring service would, and print its answer."""
    from features.home import Home
    from features.worlds import load_world
    from serving.server.requests import validated
    from serving.server.scorer import Scorer

    pairs = [item.partition("=") for item in context]
    if unpaired := [name for name, equals, _ in pairs if not equals]:
        raise GemlineError(f"--context {unpaired[0]}: write NAME=VALUE, for example store=367")
    request = validated(
        {
            "vertical": vertical,
            "surface": surface,
            "user_id": user,
            "ads": [{"ad_id": ad} for ad in ads],
            "context": {name: value for name, _, value in pairs},
            "request_ts": at,
        }
    )
    loaded = load_world(world)
    click.echo(Scorer(loaded, Home.of(loaded.name)).score(request).model_dump_json(indent=2))


@main.command()
@click.argument("table")
@click.argument("day")
@click.option("--world", default="complete_journey", show_default=True)
@click.option("--reason", required=True, help="Why this content may pass; it is kept in the ledger.")
def waive(table: str, day: str, world: str, reason: str) -> None:
    """Accept the content of a TABLE's failed audit of a DAY; then materialize the day again."""
    from orchestration.resources import WorldResource

    gate = WorldResource(world_name=world).tables().waive(table, day, reason)
    click.echo(f"{table} of {day}: content {gate.content_hash} is waived; materialize the day again to publish it")


@main.command()
@click.argument("user")
@click.option("--world", default="complete_journey", show_default=True)
@click.option("--reason", default="", help="Why; it is kept in the ledger and must not name the user.")
@click.option("--yes", is_flag=True, help="Do not ask before removing.")
def forget(user: str, world: str, reason: str, yes: bool) -> None:
    """Remove USER (the id as the log has it) from tables, history, memory, online store and cache.

    Says what there is, asks, and says what remains in weights, generations and packages. May be run again after it
    broke off.
    """
    from orchestration.doctor import require
    from orchestration.forgetting import account, told, user_of
    from orchestration.forgetting import forget as forget_user
    from orchestration.resources import WorldResource

    user_id = user_of(user)
    require(("java", "jars", "packages"))
    tables = WorldResource(world_name=world).tables()
    if not yes:
        click.echo(told(account(tables, user_id), done=False))
        click.confirm("remove it? nothing brings it back", abort=True)
    found = forget_user(tables, user_id, reason, lambda line: click.echo(line, err=True))
    click.echo(told(found, done=True))


@main.command()
@click.option("--world", default="complete_journey", show_default=True)
@click.option("--day", type=click.DateTime(["%Y-%m-%d"]), help="Default: the newest day with an evaluation.")
def report(world: str, day: datetime | None) -> None:
    """Write the release report of a day, one HTML file, and print its path."""
    from orchestration.doctor import require
    from orchestration.reporting import gather, newest_day, report_file, write_report
    from orchestration.resources import WorldResource

    gemline = WorldResource(world_name=world)
    ds = day.date().isoformat() if day else newest_day(gemline.home, gemline.world)
    if ds < gemline.world.first_day or (gemline.world.last_day is not None and ds > gemline.world.last_day):
        raise GemlineError(
            f"--day {ds}: world {world} goes from {gemline.world.first_day} to {gemline.world.last_day or 'today'}"
        )
    require(("java", "jars", "packages"))
    facts = gather(gemline.tables(), gemline.home, gemline.world, ds)
    click.echo(write_report(facts, report_file(gemline.home, ds)))


@main.command()
@click.option("--world", default="complete_journey", show_default=True)
@click.option("--day", default="", help="Day of a promoted GEM model; default: the newest promoted one.")
def freeze(world: str, day: str) -> None:
    """Freeze a promoted GEM as a generation; verticals switch to it after the world's warm-up."""
    from orchestration.doctor import require
    from orchestration.freezing import freeze_promoted
    from orchestration.resources import WorldResource

    require(("java", "jars", "packages"))
    manifest = freeze_promoted(WorldResource(world_name=world).tables(), day)
    click.echo(f"{manifest['name']}: GEM of {manifest['ds']}, labels up to {manifest['last_label_day']}")


@main.command()
@click.option("--world", default="complete_journey", show_default=True)
@click.option("--model", default="gem", show_default=True, help="gem, or a vertical.")
@click.option("--reason", required=True, help="Kept in the release record and the ledger of decisions.")
@click.option("--undo", is_flag=True, help="Take the newest rollback back instead, while nothing went live since.")
def rollback(world: str, model: str, reason: str, undo: bool) -> None:
    """Point the live release of a model back to the one before it; nothing is computed again.

    Training, judging and freezing leave out what was rolled back, too.
    """
    from features.worlds import load_world
    from features.worlds.schema import GEM
    from orchestration.doctor import require
    from orchestration.releasing import roll_back, undo_rollback
    from orchestration.resources import WorldResource

    loaded = load_world(world)
    line = model if model == GEM else loaded.vertical(model).name
    require(("java", "jars", "packages"))
    tables = WorldResource(world_name=loaded.name).tables()
    release, changed = (undo_rollback if undo else roll_back)(tables, line, reason)
    click.echo(f"live: {release.ds} {release.digest}")
    days = ", ".join(sorted({row.ds for row in changed})) or "none"
    click.echo(f"decisions that {'stand again' if undo else 'count no more'}: {days}")
    if not undo:
        click.echo(f"to undo this: gemline rollback --world {loaded.name} --model {line} --undo --reason ...")


if __name__ == "__main__":
    main()
