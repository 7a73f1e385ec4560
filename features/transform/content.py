"""Content embeddings: vectors of a text or an image that another model made, as fixed inputs.

Total, as all transforms are: a vector that is missing, or not finite throughout, is zeros and an indicator.
"""

import numpy as np

from features.transform.columns import Column, as_table
from features.transform.schema import Content, SchemaError

LIMIT = 1e4
"""Larger numbers are clipped: what embedding models give is of order one, and a stray 1e38 must not reach a sum."""


def content_inputs(entry: Content, column: Column) -> np.ndarray:
    """A column of vectors [B, width] as float32 [B, width + 1]: the vector, then 1 where it is missing.

    Raises:
        SchemaError: some vector is there and has another width.
    """
    values, missing = as_table(column)
    out = np.zeros((len(values), entry.width + 1), dtype=np.float32)
    if values.shape[1] == entry.width:
        whole = ~missing.any(axis=1) & np.isfinite(values).all(axis=1)
        out[whole, :-1] = np.clip(values[whole], -LIMIT, LIMIT)
    elif missing.all():
        whole = np.zeros(len(values), dtype=bool)
    else:
        raise SchemaError(
            f"embedding {entry.name}: vectors of {values.shape[1]} numbers, the schema says {entry.width}; "
            "the world file and the tables disagree"
        )
    out[:, -1] = ~whole
    return out
