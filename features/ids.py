"""From raw text to 64-bit ids, value by value: the same text is the same id in every table, format and day.

Text that is a 64-bit integer in its plain decimal form (no plus, no leading zero, no point) is that integer,
exactly; other text becomes its xxhash64 as Spark computes it; blank text is missing. A rule by column would
be simpler to say, but one odd value in tomorrow's file would then change the ids of all days before.

Free of Spark, so that a server can import it; `features.sources.ids` is the same rule for whole columns.
"""

import re

from features.transform.hashing import string_id

PLAIN_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"


def id_of(text: str) -> int | None:
    """The id of a string; None when it is blank."""
    clean = text.strip(" ")
    if not clean:
        return None
    if re.match(PLAIN_INTEGER, clean) and -(2**63) <= int(clean) < 2**63:
        return int(clean)
    return string_id(clean)
