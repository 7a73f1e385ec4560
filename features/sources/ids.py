"""From raw text to 64-bit ids, value by value: the same text is the same id in every table, format and day.

Text that is a 64-bit integer in its plain decimal form (no plus, no leading zero, no point) is that integer,
exactly; other text becomes its xxhash64 as Spark computes it; blank text is missing. A rule by column would
be simpler to say, but one odd value in tomorrow's file would then change the ids of all days before.
"""

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

PLAIN_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"


def id64(text: "Column") -> "Column":
    """BIGINT id of a string column; null where it is null or blank."""
    clean = filled(text)
    integer = F.when(clean.rlike(PLAIN_INTEGER), clean.try_cast("bigint"))
    return F.when(clean.isNotNull(), F.coalesce(integer, F.xxhash64(clean)))


def filled(text: "Column") -> "Column":
    """The text without surrounding blanks; null where nothing is left."""
    trimmed = F.trim(text)
    return F.when(trimmed != "", trimmed)


def id_of(text: str) -> int | None:
    """`id64` of one Python string."""
    from features.transform.hashing import string_id

    clean = text.strip(" ")
    if not clean:
        return None
    if re.match(PLAIN_INTEGER, clean) and -(2**63) <= int(clean) < 2**63:
        return int(clean)
    return string_id(clean)
