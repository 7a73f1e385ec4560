"""`gemline quality`, `stale` and `rebuild`: what audits found, what no longer follows, and making it again."""

import click

from orchestration.day_option import DAY


@click.command()
@click.option("--world", default="complete_journey", show_default=True)
@click.option("--day", type=DAY, help="Default: the newest audited day.")
def quality(world: str, day: str | None) -> None:
    """Say what the audits of a day found: verdicts, warnings, refused rows by rule and file, and the Data Docs."""
    from orchestration.doctor import require
    from orchestration.quality_text import newest_day, quality_text
    from orchestration.resources import WorldResource

    require(("java", "jars", "packages"))
    tables = WorldResource(world_name=world).tables()
    click.echo(quality_text(tables, day or newest_day(tables)))


@click.command()
@click.option("--world", default="complete_journey", show_default=True)
def stale(world: str) -> None:
    """Name tables and models made from content that was restated since, and what making them again costs."""
    from orchestration.doctor import require
    from orchestration.rebuilding import recorded_cost, told
    from orchestration.resources import WorldResource
    from orchestration.staleness import staleness

    require(("java", "jars", "packages"))
    click.echo(told(staleness(WorldResource(world_name=world).tables()), world, recorded_cost(world)))


@click.command()
@click.option("--world", default="complete_journey", show_default=True)
@click.option("--models", is_flag=True, help="Train, judge and release the models of all stale days again, too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def rebuild(world: str, models: bool, yes: bool) -> None:
    """State what making stale tables again costs, and do it: tables as range runs, models in date order."""
    from orchestration.doctor import require
    from orchestration.rebuilding import rebuild as make_again
    from orchestration.rebuilding import recorded_cost, told
    from orchestration.resources import WorldResource
    from orchestration.staleness import staleness

    require(("java", "jars", "packages"))
    tables = WorldResource(world_name=world).tables()
    found = staleness(tables)
    click.echo(told(found, world, recorded_cost(world)))
    wanted = found.days or (found.models if models else ())
    if not wanted or not (yes or click.confirm("go on?")):
        return
    make_again(world, found, click.echo, models=models)
    click.echo(told(staleness(tables), world))
