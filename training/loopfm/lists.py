"""Vectors of one width as list columns of a table, and back."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.errors import GemlineError


def lists(values: np.ndarray) -> pa.Array:
    """Rows of a float32 matrix [N, w] as a list column."""
    offsets = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.reshape(-1), pa.float32()))


def matrix(column: pa.ChunkedArray, what: str, width: int | None = None) -> np.ndarray:
    """A list column as float32 [N, width].

    Args:
        column: lists of numbers, each as long as the others.
        what: name for the message.
        width: that each list must have; by default that of the first one, 0 when there is none.

    Raises:
        GemlineError: a list of another length, or a hole.
    """
    lengths = pc.list_value_length(column).fill_null(-1).to_numpy()
    if width is None:
        width = int(lengths[0]) if len(lengths) else 0
    if (lengths != width).any():
        other = int(lengths[lengths != width][0])
        raise GemlineError(f"{what}: a row has {max(other, 0)} numbers; each must have {width}")
    flat = pc.list_flatten(column).to_numpy()
    return np.asarray(flat, dtype=np.float32).reshape(len(column), width)
