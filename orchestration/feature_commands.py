"""`gemline features`: list, describe and query the feature store."""

from collections.abc import Sequence

import click

from features.errors import GemlineError


@click.group()
def features() -> None:
    """The feature store: what it offers, and what it knows of users and ads."""


@features.command(name="list")
@click.option("--world", default="complete_journey", show_default=True)
def features_list(world: str) -> None:
    """Name views and services, with owner, life and number of features."""
    from orchestration.feature_listing import listing

    click.echo(listing(world))


@features.command(name="describe")
@click.argument("name")
@click.option("--world", default="complete_journey", show_default=True)
def features_describe(name: str, world: str) -> None:
    """Say all that is declared of NAME: a view, a service, or a feature (alone, or as view:feature)."""
    from orchestration.feature_listing import description

    click.echo(description(world, name))


@features.command(name="query")
@click.option("--world", default="complete_journey", show_default=True)
@click.option("--user", "users", multiple=True, help="User id as the log has it; may be repeated.")
@click.option("--ad", "ads", multiple=True, help="Ad id as the log has it; may be repeated.")
@click.option("--at", help="An instant (ISO 8601): historical features as of then. Without it: the online store, now.")
def features_query(world: str, users: Sequence[str], ads: Sequence[str], at: str | None) -> None:
    """Print features of users and ads, online or as of an instant."""
    from orchestration.feature_query import feature_table

    if not users and not ads:
        raise GemlineError("name a --user or an --ad to ask about")
    click.echo(feature_table(world, users, ads, at))
