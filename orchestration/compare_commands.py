"""`gemline compare`: two models on identical rows."""

import json

import click


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--world", default="complete_journey", show_default=True)
@click.option("--model", default="gem", show_default=True, help="gem, or a vertical.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of Markdown.")
def compare(a: str, b: str, world: str, model: str, as_json: bool) -> None:
    """Compare model A with model B on the pairs that both predicted before training on them.

    Each is `live`, a day (YYYY-MM-DD), or the first letters of the digest of a model or of its package.
    """
    from features.worlds import load_world
    from features.worlds.schema import GEM
    from orchestration.comparing import compared
    from orchestration.doctor import require
    from orchestration.resources import WorldResource

    loaded = load_world(world)
    line = model if model == GEM else loaded.vertical(model).name
    require(("java", "jars", "packages"))
    found = compared(WorldResource(world_name=loaded.name).tables(), line, a, b)
    click.echo(json.dumps(found.to_json(), indent=1, allow_nan=False) if as_json else found.markdown())
