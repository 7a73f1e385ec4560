"""Local days inside Spark expressions: the same days as `features.days`, for whole columns.

The session's time zone is UTC, so a timestamp shifted to the world's zone reads as that zone's wall clock.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.days import day_bounds, micros, micros_of

if TYPE_CHECKING:
    from pyspark.sql import Column


def instant(moment: datetime) -> "Column":
    """An aware instant as a literal; unlike `F.lit(datetime)` it never passes through the machine's zone."""
    return F.timestamp_micros(F.lit(micros(moment)).cast("bigint"))


def later(column: "Column", span: timedelta) -> "Column":
    """A timestamp column moved by an exact duration (negative: earlier)."""
    return F.timestamp_micros(F.unix_micros(column) + F.lit(micros_of(span)).cast("bigint"))


def wall_clock(column: "Column", timezone: str) -> "Column":
    """A timestamp column as the wall clock of a zone, for reading hours and dates off it."""
    return F.from_utc_timestamp(column, timezone)


def local_day(column: "Column", timezone: str) -> "Column":
    """Local day 'YYYY-MM-DD' that holds each instant."""
    return F.date_format(wall_clock(column, timezone), "yyyy-MM-dd")


def day_end_micros(ds: "Column", days: Sequence[str], timezone: str) -> "Column":
    """End of each row's day in microseconds; null for a day that is not among `days`."""
    pairs = [F.lit(part) for day in days for part in (day, micros(day_bounds(day, timezone)[1]))]
    return F.create_map(*pairs)[ds].cast("bigint")
