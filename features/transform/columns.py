"""Columns with nulls.

Numpy values beside a mask, so that a missing int64 id stays exact and never becomes a float. A column of lists is a
table of as many places as its longest list has; places behind a list's end are missing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np


class Column(NamedTuple):
    """Values [N] and where they are missing (bool [N]), of lists both [N, width].

    The value under a missing mark is never read.
    """

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
        missing = np.zeros(values.shape, dtype=bool)
    if values.dtype.kind == "f":
        missing = missing | np.isnan(values)
    elif values.dtype == object:
        gone = [value is None or value != value for value in values.ravel()]
        missing = missing | np.array(gone, dtype=bool).reshape(values.shape)
    return Column(values, missing)


def column_of(columns: Mapping[str, ColumnLike], name: str, rows: int) -> Column:
    """The named column, or one that is missing throughout.

    A key that is not there is a value that is not known.
    """
    if name in columns:
        return as_column(columns[name])
    return Column(np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=bool))


def of_lists(lists: Sequence[Sequence[Any] | None], dtype: type) -> Column:
    """Column [N, width] of N lists; None is a missing list, or a missing place within one."""
    lengths = np.array([0 if items is None else len(items) for items in lists], dtype=np.int64)
    flat = [item for items in lists if items is not None for item in items]
    missing = np.array([item is None for item in flat], dtype=bool)
    values: np.ndarray = np.array([0 if item is None else item for item in flat], dtype=dtype)
    return of_flat(values, missing, lengths)


def of_flat(values: np.ndarray, missing: np.ndarray, lengths: np.ndarray) -> Column:
    """Column [N, width] of the items [M] of N lists, one after another; `lengths` [N] sum to M."""
    shape = len(lengths), int(lengths.max(initial=0))
    held = np.arange(shape[1]) < lengths[:, None]
    column = Column(np.zeros(shape, dtype=values.dtype), np.ones(shape, dtype=bool))
    column.values[held], column.missing[held] = values, missing
    return column


def as_table(column: Column) -> Column:
    """The column as one of lists, [N, width]; single values are lists of at most one."""
    return column if column.values.ndim == 2 else Column(column.values[:, None], column.missing[:, None])


def joined(parts: Sequence[Column]) -> Column:
    """Columns of the same name after one another; of lists, all as wide as the widest."""
    width = max((part.values.shape[1] for part in parts if part.values.ndim == 2), default=0)
    if width:
        parts = [_widened(part, width) for part in parts]
    return Column(np.concatenate([part.values for part in parts]), np.concatenate([part.missing for part in parts]))


def _widened(part: Column, width: int) -> Column:
    values, missing = as_table(part)
    more = ((0, 0), (0, width - values.shape[1]))
    return Column(np.pad(values, more), np.pad(missing, more, constant_values=True))
