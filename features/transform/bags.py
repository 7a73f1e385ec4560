"""Multi-valued features: any number of ids an example, as table rows one after another.

A bag is never empty: where nothing is known it holds row 0, the row of what is missing, just as a single-valued
feature does. A model averages a bag's vectors, so the number of values does not change the scale.
"""

from typing import NamedTuple

import numpy as np

from features.transform.columns import Column, as_table
from features.transform.hashing import rows_of, string_ids, table_salt


class Bags(NamedTuple):
    """Table rows int64 [M] of B bags, and how many each holds, int64 [B]; never 0."""

    rows: np.ndarray
    lengths: np.ndarray


def bags_of(column: Column, table: str, rows: int) -> Bags:
    """Bags of a column [B, width] of ids or text, or [B] with at most one value each.

    Args:
        column: places that are missing hold nothing.
        table: embedding table.
        rows: its size.
    """
    values, missing = as_table(column)
    items = values[~missing]
    nowhere = np.zeros(len(items), dtype=bool)
    ids = string_ids(items, nowhere) if items.dtype.kind in "OUST" else items.astype(np.int64)
    counts = (~missing).sum(axis=1)
    lengths = np.maximum(counts, 1)
    laid = np.zeros(lengths.sum(), dtype=np.int64)
    laid[np.repeat(counts > 0, lengths)] = rows_of(ids, nowhere, rows, table_salt(table))
    return Bags(laid, lengths)
