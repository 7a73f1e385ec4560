"""Rows kept aside in order of their unit of resampling: in memory while they are few, in a temporary file otherwise.

All rows of a unit come back together, so whatever groups rows within a user or request needs a part of them at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from types import TracebackType

import numpy as np
from numpy.typing import DTypeLike, NDArray

from training.bootstrap import UNITS
from training.metrics import Integers

IN_MEMORY = 32 << 20
"""Bytes above which rows go to a file below the system's folder for temporary ones (`TMPDIR`)."""
PART_ROWS = 1 << 18
"""About how many rows come back at a time; a unit is never cut."""


@dataclass(frozen=True)
class Part:
    """All rows of neighbouring units.

    Attributes:
        units: [n] unit of each row.
        rows: [n] records.
    """

    units: Integers
    rows: NDArray[np.void]


class Spill:
    """Records of one type; a context manager, which removes its file."""

    def __init__(self, dtype: DTypeLike) -> None:
        """Start without rows."""
        self._dtype = np.dtype(dtype)
        self._file = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - closed by __exit__
        self._offsets: list[Integers] = []
        self._length = 0

    def __enter__(self) -> "Spill":
        """Nothing is to be done."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the file."""
        self._file.close()

    def add(self, units: NDArray[np.uint16], rows: NDArray[np.void]) -> None:
        """Keep rows [n], each with its unit [n]."""
        ordered = rows[np.argsort(units, kind="stable")]
        self._file.write(ordered.view(np.uint8).data)
        ends = np.cumsum(np.bincount(units, minlength=UNITS))
        self._offsets.append(self._length + np.concatenate(([0], ends)))
        self._length += len(rows)

    def parts(self, most_units: int = UNITS) -> Iterator[Part]:
        """Everything, by unit.

        Args:
            most_units: of one part.
        """
        sizes = sum((np.diff(offsets) for offsets in self._offsets), np.zeros(UNITS, dtype=np.int64))
        first = 0
        while first < UNITS:
            fitting = int(np.searchsorted(np.cumsum(sizes[first:]), PART_ROWS, side="right"))
            end = min(first + max(1, min(fitting, most_units)), UNITS)
            if sizes[first:end].any():
                yield self._part(first, end)
            first = end

    def _part(self, first: int, end: int) -> Part:
        rows, units = [], []
        for offsets in self._offsets:
            start, stop = int(offsets[first]), int(offsets[end])
            self._file.seek(start * self._dtype.itemsize)
            rows.append(np.frombuffer(self._file.read((stop - start) * self._dtype.itemsize), self._dtype))
            units.append(np.repeat(np.arange(first, end), np.diff(offsets[first : end + 1])))
        return Part(np.concatenate(units), np.concatenate(rows))
