"""The newest row of an id that was known strictly before an instant, for whole tables at a cost linear in their days.

The rule is that of Feast's join as `features.store.historical` asks it: stamped and available at most one microsecond
before the instant, no older than the ttl; of these the newest stamp, and of one stamp the newest availability. Feast's
SQL pairs each request with all rows of its id, several times over, so twice the days cost four times as much. Here
both sides carry the number of their day, and a request meets only the few days that the ttl reaches.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from features.days import micros_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DAY_US = 86_400_000_000


def with_newest(
    requests: "DataFrame", rows: "DataFrame", key: str, columns: Sequence[str], ttl: timedelta
) -> "DataFrame":
    """Add columns of the newest row that each request may know; nulls where there is none.

    Args:
        requests: `key` (may be null), `request_ts` and any others; none of them is lost or doubled.
        rows: `key`, `event_timestamp`, `available_ts` and `columns`.
        key: name of the id.
        columns: what is added.
        ttl: life of a row from its stamp on.
    """
    asked = F.unix_micros("request_ts") - 1
    moments = requests.where(F.col(key).isNotNull()).select(key, asked.alias("_asked")).distinct()
    oldest = F.col("_asked") - micros_of(ttl)
    moments = moments.withColumn("_day", F.explode(F.sequence(_day(oldest), _day(F.col("_asked")))))
    stamp, known = F.unix_micros("event_timestamp"), F.unix_micros("available_ts")
    stamped = rows.select(key, *columns, stamp.alias("_stamp"), known.alias("_known"), _day(stamp).alias("_day"))
    met = moments.join(stamped, [key, "_day"])
    alive = met.where((F.col("_stamp") >= oldest) & (F.greatest("_stamp", "_known") <= F.col("_asked")))
    newest = Window.partitionBy(key, "_asked").orderBy(F.desc("_stamp"), F.desc("_known"))
    found = alive.withColumn("_place", F.row_number().over(newest)).where("_place = 1")
    return (
        requests.withColumn("_asked", asked)
        .join(found.select(key, "_asked", *columns), [key, "_asked"], "left")
        .drop("_asked")
    )


def _day(micros: "Column") -> "Column":
    """Number of the UTC day that holds an instant."""
    return F.floor(micros / DAY_US)
