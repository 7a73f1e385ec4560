"""Which refused rows are a user's: they are kept as raw text, so the id is looked for where the log has it."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from features.sources.ids import id64
from features.worlds.schema import World

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BETWEEN = r"[\s,;|\"{}\[\]:]+"
"""Between the values of a line that could not be split."""


def mentions(refused: "DataFrame", world: World, same: "Callable[[Column], Column]") -> "Column":
    """Whether a refused row is of a user.

    Args:
        refused: columns `table` and `row`, as `features.sources.base.REFUSED_SCHEMA`.
        world: may say which raw column holds the user.
        same: whether a BIGINT id is the user's.

    Returns:
        By the raw columns that the world maps to `user_id`. Where it names none for the table, or the row lacks them
        because its line could not be split: whether any value or any part of the line is the id.
    """
    by_name = F.from_json("row", "map<string,string>")
    values = F.coalesce(F.map_values(by_name), F.array().cast("array<string>"))
    parts = F.flatten(F.transform(values, lambda value: F.split(F.coalesce(value, F.lit("")), BETWEEN)))
    anywhere = F.exists(F.concat(values, parts), lambda part: same(id64(part)))
    found = anywhere
    for table in sorted(world.source.options):
        for columns in user_columns(world.source.options[table]):
            named = F.concat_ws("/", *(F.try_element_at(by_name, F.lit(name)) for name in columns))
            has = F.forall(F.array(*map(F.lit, columns)), lambda name: F.map_contains_key(by_name, name))
            found = F.when((F.col("table") == table) & has, same(id64(named))).otherwise(found)
    return F.coalesce(found, F.lit(False))


def user_columns(options: Any) -> Iterator[tuple[str, ...]]:
    """Raw columns that a table's options map to `user_id`; several together where they make one id."""
    if isinstance(options, list | tuple):
        for entry in options:
            yield from user_columns(entry)
    elif isinstance(options, dict):
        raw = (options.get("columns") or {}).get("user_id")
        if raw is not None:
            yield tuple(raw) if isinstance(raw, list | tuple) else (str(raw),)
