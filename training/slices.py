"""Which slices of scored rows are judged, and the code of each row's slice: by surface, frequency of user and ad, day.

Frequency is how many impressions of a user (or ad) the log kept on days before the row's own (`training.judging`):
what a model can have learned of it. The buckets are 0, 1-9, 10-99 and 100 or more, since what the next impression
teaches falls with the number of those before it, so that equal ratios and not equal differences tell buckets apart.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.errors import GemlineError
from training.metrics import Integers

ALL, SURFACE, USER_FREQUENCY, AD_FREQUENCY, DAY = "all", "surface", "user_frequency", "ad_frequency", "day"
FREQUENCIES = {USER_FREQUENCY: "user_seen", AD_FREQUENCY: "ad_seen"}
"""Columns with how often a row's user and ad were seen before."""
STEPS = (1, 10, 100)
BUCKETS = ("0", "1-9", "10-99", "100+")
UNKNOWN = "unknown"
"""Bucket of rows without user or ad, and name of a missing surface."""
_MOST_SLICES = 1 << 16


@dataclass
class Vocabulary:
    """Texts by code, in order of appearance."""

    names: list[str] = field(default_factory=list)

    def codes(self, column: pa.Array) -> Integers:
        """Code [n] of each text; a missing one is `UNKNOWN`."""
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        names = [UNKNOWN if name is None else str(name) for name in (*coded.dictionary.to_pylist(), None)]
        indices = coded.indices.fill_null(len(names) - 1).to_numpy(zero_copy_only=False).astype(np.int64)
        used = np.bincount(indices, minlength=len(names)) > 0
        known = {name: code for code, name in enumerate(self.names)}
        of_name = [known.setdefault(name, len(known)) if seen else 0 for name, seen in zip(names, used, strict=True)]
        self.names = list(known)
        found: Integers = np.array(of_name, dtype=np.int64)[indices]
        return found


@dataclass
class Dimension:
    """One way of slicing; a slice is a pair of a value of it and a task.

    Attributes:
        by: its name.
        column: of the rows; empty for all rows together.
        slices: (task, value) of each slice, by code; value is None for all rows.
    """

    by: str
    column: str = ""
    slices: list[tuple[str, str | None]] = field(default_factory=list)
    _values: Vocabulary = field(default_factory=Vocabulary)
    _codes: dict[tuple[int, int], int] = field(default_factory=dict)

    def places(self, tasks: Integers, task_names: list[str], column: pa.Array | None) -> NDArray[np.uint16]:
        """Slice [n] of each row.

        Args:
            tasks: [n] code of its task.
            task_names: by code.
            column: [n] of `column`, None for all rows together.

        Raises:
            GemlineError: there are more than 65,536 slices.
        """
        values = self._value_codes(column, len(tasks))
        pairs = values * len(task_names) + tasks
        found = np.flatnonzero(np.bincount(pairs))
        code_of = np.zeros(int(found.max(initial=0)) + 1, dtype=np.uint16)
        for pair in found.tolist():
            value, task = divmod(pair, len(task_names))
            if (value, task) not in self._codes:
                self._codes[value, task] = self._add(task_names[task], value)
            code_of[pair] = self._codes[value, task]
        return code_of[pairs]

    def _add(self, task: str, value: int) -> int:
        if len(self.slices) == _MOST_SLICES:
            raise GemlineError(f"more than {_MOST_SLICES} slices by {self.by}; evaluate fewer tasks or days together")
        self.slices.append((task, self._values.names[value] if self.column else None))
        return len(self.slices) - 1

    def _value_codes(self, column: pa.Array | None, rows: int) -> Integers:
        if column is None:
            return np.zeros(rows, dtype=np.int64)
        if self.by not in FREQUENCIES:
            return self._values.codes(column)
        self._values.names = [*BUCKETS, UNKNOWN]
        seen = column.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        return np.where(seen < 0, len(BUCKETS), np.searchsorted(STEPS, seen, side="right"))

    def order(self, place: int) -> tuple[str, Any]:
        """What slices of this dimension are sorted by: task, then value."""
        task, value = self.slices[place]
        names = [*BUCKETS, UNKNOWN]
        return task, names.index(str(value)) if self.by in FREQUENCIES else value or ""


def dimensions(day: str) -> list[Dimension]:
    """All rows together, and every way of slicing.

    Args:
        day: column of the slices by day.
    """
    columns = {SURFACE: "surface", **FREQUENCIES, DAY: day}
    return [Dimension(ALL), *(Dimension(by, column) for by, column in columns.items())]
