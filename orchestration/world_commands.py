"""`gemline world`: list, add, check and init: what a log means."""

from collections.abc import Sequence
from pathlib import Path

import click

from features.errors import GemlineError


@click.group()
def world() -> None:
    """World files: what a log means."""


@world.command(name="list")
def world_list() -> None:
    """Name all worlds."""
    from features.worlds import load_world, world_names

    for name in world_names():
        loaded = load_world(name)
        click.echo(f"{name}\t{loaded.title}{' (synthetic)' if loaded.synthetic else ''}")


@world.command(name="add")
@click.argument("file", type=click.Path(path_type=Path))
def world_add(file: Path) -> None:
    """Check a world FILE, keep a copy, and give it a code location in the Dagster UI."""
    from features.worlds.load import add_world
    from orchestration.locations import write_workspace

    name = add_world(file).name
    click.echo(f"world {name} is known; its code location is in {write_workspace()}")


@world.command(name="check")
@click.argument("file")
@click.option(
    "--rows", default=10_000, show_default=True, type=click.IntRange(min=1), help="Read of each mapping's files."
)
def world_check(file: str, rows: int) -> None:
    """Read a sample of the log of a world FILE: what each column holds, and which rows would be refused and why."""
    from orchestration.doctor import require
    from orchestration.world_check import check_world

    require(("java", "jars", "packages"))
    text, sound = check_world(file, rows)
    click.echo(text)
    if not sound:
        raise SystemExit(1)


@world.command(name="init")
@click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--out", type=click.Path(path_type=Path), help="World file to write; default: print it.")
@click.option("--name", default="my_log", show_default=True, help="Name of the world.")
@click.option("--timezone", default="UTC", show_default=True, help="Zone whose days are the partitions.")
def world_init(logs: Sequence[Path], out: Path | None, name: str, timezone: str) -> None:
    """Propose a first world file from a sample of LOGS, and say what a person must fill in."""
    from features.sources.files.propose import propose

    proposal = propose(logs, name, timezone, Path.cwd() if out is None else out.parent)
    if out is None:
        click.echo(proposal.text)
    elif out.exists():
        raise GemlineError(f"{out} exists; choose another --out, or remove it")
    else:
        out.write_text(proposal.text, encoding="utf-8")
    for sentence in proposal.open:
        click.echo(f"fill in: {sentence}", err=True)
