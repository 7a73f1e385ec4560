"""What a table's columns may do: a new one is added, a lost one is null from then on, a changed type needs all days."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from features.errors import GemlineError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class Change:
    """How rows differ from the table that they go to.

    Attributes:
        new: columns that the table does not have.
        lost: columns of the table that the rows lack.
        retyped: columns of another type, each in words.
    """

    new: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    retyped: tuple[str, ...] = ()


def change_of(table: "StructType | None", rows: "StructType") -> Change:
    """Compare the columns of rows with those of their table, which is None before the first publish."""
    if table is None:
        return Change()
    had = {field.name: field.dataType.simpleString() for field in table.fields}
    have = {field.name: field.dataType.simpleString() for field in rows.fields}
    retyped = [
        f"{name} was {had[name]} and is now {have[name]}" for name in have if had.get(name, have[name]) != have[name]
    ]
    return Change(tuple(sorted(have.keys() - had.keys())), tuple(sorted(had.keys() - have.keys())), tuple(retyped))


def require_whole(change: Change, table: str, published: Sequence[str], days: Sequence[str]) -> None:
    """Refuse a changed type unless every published day is made again with it.

    Args:
        change: of the rows against the table.
        table: its name.
        published: its days, in date order.
        days: days that are published now.

    Raises:
        GemlineError: says which column, and what to run.
    """
    if change.retyped and not set(published) <= set(days):
        raise GemlineError(
            f"{table}: {'; '.join(change.retyped)}. A table has one type a column: undo the change of the world file, "
            f"give the column another name, or materialize {table} of {published[0]}..{published[-1]} in one range run"
        )
