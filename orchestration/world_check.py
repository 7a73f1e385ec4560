"""`gemline world check`: reads a sample of a log through its world file and says what it found."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from features.sources.base import source
from features.worlds import World, load_world
from features.worlds.load import read_world

if TYPE_CHECKING:
    from features.sources.files.survey import TableSurvey

EXAMPLE_WIDTH = 160
CELL_WIDTH = 60
NAMED = 12
"""Columns that nothing reads, listed by name."""
HEADS = ("column", "read from", "type", "range", "blank")


def check_world(name_or_file: str, rows: int) -> tuple[str, bool]:
    """The report of a world, and whether it has no errors.

    Args:
        name_or_file: a known world, or a world file.
        rows: about so many rows of each table are read.

    Raises:
        WorldError: the file, or what it says of the log's files, does not fit.
    """
    path = Path(name_or_file)
    world = read_world(path) if path.is_file() else load_world(name_or_file)
    source(world).check(world)
    if world.source.adapter != "files":
        return f"world {world.name}: fits its adapter, {world.source.adapter}, which reads its log by itself", True
    from features.sources.files.survey import faults, survey
    from features.spark import session

    tables = survey(session(), world, rows)
    errors, warnings = faults(world, tables)
    return report(world, tables, errors, warnings), not errors


def report(world: World, tables: Sequence["TableSurvey"], errors: Sequence[str], warnings: Sequence[str]) -> str:
    """The report as text."""
    parts = [f"world {world.name}: {world.title}"]
    parts += [_table(found) for found in tables]
    for word, sentences in (("warning", warnings), ("error", errors)):
        parts += ["\n".join(f"{word}: {sentence}" for sentence in sentences)] if sentences else []
    verdict = f"{len(errors)} errors, {len(warnings)} warnings"
    return "\n\n".join([*parts, f"world {world.name}: {verdict}{'' if errors else '; `gemline world add` takes it'}"])


def _table(found: "TableSurvey") -> str:
    title = f"{found.table}: {found.rows} rows read of {found.files} files, {found.good} good"
    days = f", {min(found.days)} to {max(found.days)}" if found.days else ""
    cells = [HEADS] + [
        (column.name, column.source, column.kind, column.span, f"{column.blank:.1%}") for column in found.columns
    ]
    widths = [min(max(len(row[at]) for row in cells), CELL_WIDTH) for at in range(len(HEADS))]
    lines = ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    refused = [
        f"  refused: {count} by '{rule}' in {where}, such as {row[:EXAMPLE_WIDTH]}"
        for rule, where, count, row in found.refused
    ]
    more = f" and {len(found.unread) - NAMED} more" if len(found.unread) > NAMED else ""
    unread = [f"  not read: {', '.join(found.unread[:NAMED])}{more}"] if found.unread else []
    return "\n".join([title + days, *(line.rstrip() for line in lines), *refused, *unread])
