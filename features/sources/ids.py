"""From raw text to 64-bit ids in Spark, by the rule of `features.ids`."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.ids import PLAIN_INTEGER

if TYPE_CHECKING:
    from pyspark.sql import Column


def id64(text: "Column") -> "Column":
    """BIGINT id of a string column; null where it is null or blank."""
    clean = filled(text)
    integer = F.when(clean.rlike(PLAIN_INTEGER), clean.try_cast("bigint"))
    return F.when(clean.isNotNull(), F.coalesce(integer, F.xxhash64(clean)))


def filled(text: "Column") -> "Column":
    """The text without surrounding blanks; null where nothing is left."""
    trimmed = F.trim(text)
    return F.when(trimmed != "", trimmed)
