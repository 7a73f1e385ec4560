"""The one keep decision: which negatives of a log are kept, and with what rate every row is stamped.

A row's number in [0, 1) is a hash of its impression id and nothing else, so no label, order, day range or
machine can move it. The row is kept when its number is below the rate w of its surface (a world gives one
rate for all days), or when it has a primary positive. `keep_rate` is w on every row, positive or not: the
loss undoes the sampling with it, and a row that says "I am here because I was positive" would leak the label.
The same numbers in numpy are `features.transform.sampling`.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.transform.sampling import DROPPED_BITS, SALT
from features.worlds.schema import World

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def uniform(impression_id: "Column") -> "Column":
    """DOUBLE in [0, 1) from an impression id."""
    bits = F.shiftrightunsigned(F.xxhash64(F.lit(SALT), impression_id), DROPPED_BITS)
    return bits.cast("double") * F.lit(2.0**-53)


def kept(impression_id: "Column", rate: "Column") -> "Column":
    """Whether a negative is kept under rate w."""
    return uniform(impression_id) < rate


def rate_of(surface: "Column", world: World) -> "Column":
    """Rate w of each row's surface; null for a surface that the world does not name."""
    pairs = [part for entry in world.surfaces for part in (F.lit(entry.name), F.lit(entry.keep_rate))]
    return F.try_element_at(F.create_map(*pairs), surface)


def sample(frame: "DataFrame", world: World, positive: "Column") -> "DataFrame":
    """Kept rows, with `keep_rate`.

    Args:
        frame: impressions with `impression_id` and `surface`; rows of surfaces that the world does not name
            are dropped.
        world: gives the rates.
        positive: whether the row has a positive of a primary task.
    """
    rated = frame.withColumn("keep_rate", rate_of(F.col("surface"), world)).where("keep_rate is not null")
    return rated.where(positive | kept(F.col("impression_id"), F.col("keep_rate")))
