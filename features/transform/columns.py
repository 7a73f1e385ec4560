"""Columns with nulls.

Numpy values beside a mask, so that a missing int64 id stays exact and never becomes a float.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np


class Column(NamedTuple):
    """Values [N] and where they are missing (bool [N]); the value under a missing mark is never read."""

    values: np.ndarray
    missing: np.ndarray


ColumnLike = Column | np.ndarray | tuple[np.ndarray, np.ndarray]


def as_column(data: ColumnLike) -> Column:
    """Column of an array (NaN and None are missing), a masked array, or a pair (values, missing mask)."""
    if isinstance(data, tuple):
        values, missing = np.asarray(data[0]), np.asarray(data[1], dtype=bool)
    elif isinstance(data, np.ma.MaskedArray):
        values, missing = np.asarray(data.data), np.ma.getmaskarray(data)
    else:
        values = np.asarray(data)
        missing = np.zeros(len(values), dtype=bool)
    if values.dtype.kind == "f":
        missing = missing | np.isnan(values)
    elif values.dtype == object:
        missing = missing | np.array([value is None or value != value for value in values], dtype=bool)
    return Column(values, missing)


def column_of(columns: Mapping[str, ColumnLike], name: str, rows: int) -> Column:
    """The named column, or one that is missing throughout.

    A key that is not there is a value that is not known.
    """
    if name in columns:
        return as_column(columns[name])
    return Column(np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=bool))
