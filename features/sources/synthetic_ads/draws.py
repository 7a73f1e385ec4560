"""Random numbers that are hashes: of the seed, a name and whole-number keys, and of nothing else.

A row's numbers are therefore the same in every partitioning, day range and engine. `Draws` gives Spark columns;
`Numbers` is the same in plain Python, for constant tables and for whoever checks the generator.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.transform.hashing import SPARK_SEED, string_id, xxh64_bytes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_DROPPED_BITS = 11
"""53 of 64 bits: as many as a double holds exactly."""
_STEP = 2.0**-53


def _salt(seed: int, name: str) -> int:
    return string_id(f"synthetic_ads/{seed}/{name}")


@dataclass(frozen=True)
class Draws:
    """Columns of draws.

    Attributes:
        seed: of the world.
    """

    seed: int

    def uniform(self, name: str, *keys: "Column | int") -> "Column":
        """DOUBLE in the open interval (0, 1)."""
        parts = [(key if not isinstance(key, int) else F.lit(key)).cast("bigint") for key in keys]
        bits = F.xxhash64(F.lit(_salt(self.seed, name)).cast("bigint"), *parts)
        return (F.shiftrightunsigned(bits, _DROPPED_BITS).cast("double") + F.lit(0.5)) * F.lit(_STEP)

    def below(self, name: str, bound: int, *keys: "Column | int") -> "Column":
        """BIGINT in [0, bound)."""
        return F.floor(self.uniform(name, *keys) * F.lit(float(bound))).cast("bigint")

    def sign(self, name: str, *keys: "Column | int") -> "Column":
        """-1.0 or 1.0."""
        return F.when(self.uniform(name, *keys) < 0.5, F.lit(-1.0)).otherwise(F.lit(1.0))

    def normal(self, name: str, *keys: "Column | int") -> "Column":
        """Standard normal (Box and Muller 1958)."""
        radius = F.sqrt(F.lit(-2.0) * F.log(self.uniform(f"{name}/radius", *keys)))
        return radius * F.cos(F.lit(2 * math.pi) * self.uniform(f"{name}/angle", *keys))

    def exponential(self, name: str, mean: float, *keys: "Column | int") -> "Column":
        """Exponential of the given mean."""
        return F.lit(-mean) * F.log(self.uniform(name, *keys))

    def chosen(self, name: str, shares: tuple[float, ...], *keys: "Column | int") -> "Column":
        """BIGINT index into `shares`, which sum to 1, each with its share."""
        number, reached = self.uniform(name, *keys), 0.0
        index = F.lit(0).cast("bigint")
        for share in shares[:-1]:
            reached += share
            index = index + (number >= reached).cast("bigint")
        return index


@dataclass(frozen=True)
class Numbers:
    """The same draws as Python numbers.

    Attributes:
        seed: of the world.
    """

    seed: int

    def uniform(self, name: str, *keys: int) -> float:
        """As `Draws.uniform`."""
        state = SPARK_SEED
        for key in (_salt(self.seed, name), *keys):
            state = xxh64_bytes(key.to_bytes(8, "little", signed=True), state)
        return ((state >> _DROPPED_BITS) + 0.5) * _STEP

    def below(self, name: str, bound: int, *keys: int) -> int:
        """As `Draws.below`."""
        return math.floor(self.uniform(name, *keys) * bound)

    def sign(self, name: str, *keys: int) -> float:
        """As `Draws.sign`."""
        return -1.0 if self.uniform(name, *keys) < 0.5 else 1.0

    def normal(self, name: str, *keys: int) -> float:
        """As `Draws.normal`."""
        radius = math.sqrt(-2.0 * math.log(self.uniform(f"{name}/radius", *keys)))
        return radius * math.cos(2 * math.pi * self.uniform(f"{name}/angle", *keys))


def lookup(values: "list[float] | tuple[float, ...]", index: "Column") -> "Column":
    """The number at a column's position (0 first) of a constant table."""
    return F.element_at(F.array(*(F.lit(float(value)) for value in values)), index.cast("int") + 1)


def sealed(frame: "DataFrame") -> "DataFrame":
    """The same rows, behind a generator through which the optimiser moves nothing.

    Without it a filter on a late column is pushed down through the equations, each of which then stands in it once for
    every use of its result: planning such a query takes minutes.
    """
    return frame.select(F.inline(F.array(F.struct(*frame.columns))))
