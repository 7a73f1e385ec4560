"""What an adapter is: a module of this package with `extract(spark, world, days)`, named in the world file.

An adapter is the only code that knows raw files. It returns canonical frames (`features.sources.canonical`)
that hold the asked days and nothing else, lazily, and the same rows whichever days are asked together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from pydantic import BaseModel, ValidationError

import features.sources
from features.errors import WorldError
from features.worlds.schema import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REFUSED_SCHEMA = "ds string, table string, rule string, source string, row string"
OptionsT = TypeVar("OptionsT", bound=BaseModel)


@dataclass(frozen=True)
class Extracted:
    """What an adapter read.

    Attributes:
        tables: `impressions`, `outcomes`, `events`, `users`, `ads`: canonical columns, rows of the asked
            days.
        refused: rows kept out, or kept in part by a rule that says so, as `REFUSED_SCHEMA` (row: the raw columns as
            JSON); None when the adapter refuses nothing.
    """

    tables: dict[str, "DataFrame"]
    refused: "DataFrame | None" = None


class Source(Protocol):
    """The face of an adapter module."""

    def check(self, world: World) -> None:
        """Raise WorldError unless the options fit; reads no rows."""
        ...

    def extract(self, spark: "SparkSession", world: World, days: Sequence[str]) -> Extracted:
        """Canonical frames of the given local days."""
        ...


def adapter_names() -> list[str]:
    """Adapters that ship."""
    names = [module.name for module in iter_modules(features.sources.__path__)]
    return [name for name in names if _is_adapter(name)]


def _is_adapter(name: str) -> bool:
    return hasattr(import_module(f"features.sources.{name}"), "extract") and name != "base"


def source(world: World) -> Source:
    """The adapter that a world names.

    Raises:
        WorldError: there is none of that name.
    """
    known = adapter_names()
    if world.source.adapter not in known:
        raise WorldError(
            f"world {world.name}: source.adapter '{world.source.adapter}' is not known; "
            f"choose one of {', '.join(known)}"
        )
    return cast("Source", import_module(f"features.sources.{world.source.adapter}"))


def extract(spark: "SparkSession", world: World, days: Sequence[str]) -> Extracted:
    """Read the given local days of a world's log with its own adapter.

    Raises:
        WorldError: unknown adapter, or options that do not fit the files.
    """
    return source(world).extract(spark, world, list(days))


def parse_options(model: type[OptionsT], world: World) -> OptionsT:
    """Options of the world's adapter, validated.

    Raises:
        WorldError: names the key that does not fit.
    """
    try:
        return model.model_validate(world.source.options)
    except ValidationError as error:
        faults = "; ".join(_sentence(dict(fault)) for fault in error.errors()[:5])
        raise WorldError(f"world {world.name}: {faults}") from None


def _sentence(fault: dict) -> str:
    where = ".".join(["source.options", *(str(step) for step in fault["loc"])])
    what = "unknown key (a typo?)" if fault["type"] == "extra_forbidden" else fault["msg"].removeprefix("Value error, ")
    return f"{where}: {what}"
