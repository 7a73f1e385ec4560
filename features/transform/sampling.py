"""Which rows of a log are kept: a number in [0, 1) from the impression id and nothing else, compared with a rate.

Spark's form of the same numbers is `features.sources.sampling`, which samples at ingest. A trainer that thins a
kept row further compares the same number with a smaller rate: what it keeps is a part of what ingest kept.
"""

import numpy as np

from features.transform.hashing import string_id, xxh64_int64

SALT = "gemline.sampling"
"""Sets this hash apart from table rows and from user memories."""
DROPPED_BITS = 11
"""53 of 64 bits: as many as a double holds exactly, so Spark and numpy agree on every comparison."""


def uniform(impression_ids: np.ndarray, salt: str = SALT) -> np.ndarray:
    """Float64 [N] in [0, 1) of int64 [N]; another salt gives numbers that know nothing of these."""
    bits = xxh64_int64(impression_ids, string_id(salt)) >> np.uint64(DROPPED_BITS)
    return bits.astype(np.float64) * 2.0**-53


def kept(impression_ids: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Whether negatives are kept, bool [N]: int64 [N] under rates, float64 [N]."""
    return uniform(impression_ids) < rates
