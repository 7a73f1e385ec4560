"""Batches of scored rows, from pandas or Arrow, as records of numbers: what metrics, slices and resamples need.

A batch passes through Arrow, where an integer beside a null stays an integer: ids above 2 ** 53 stay exact.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from features.errors import GemlineError
from training.bootstrap import units_of
from training.metrics import Floats, Integers, Reason
from training.slices import Dimension, Vocabulary

Batch: TypeAlias = pd.DataFrame | pa.Table | pa.RecordBatch
Rows: TypeAlias = Batch | Iterable[Batch]
REQUIRED = ("surface", "task", "user_id", "ds", "label", "weight")
BATCH_ROWS = 1 << 20
"""Larger batches are cut."""
FAULT_OF = (None, Reason.NON_FINITE_WEIGHT, Reason.NON_FINITE_PREDICTION, Reason.NOT_A_PROBABILITY)
"""What the field `fault` of a record stands for."""
_IDS = ("user_id", "request_id", "impression_id")
_REQUEST, _ROW = 1, 2


@dataclass
class Coder:
    """Turns batches into records, with the same codes in every batch.

    Attributes:
        predictions: columns with probabilities, one or two.
        dimensions: ways of slicing.
        seed: of the units.
    """

    predictions: tuple[str, ...]
    dimensions: list[Dimension]
    seed: int
    days: Vocabulary = field(default_factory=Vocabulary)
    tasks: Vocabulary = field(default_factory=Vocabulary)
    columns: set[str] = field(default_factory=set)
    _rows: int = 0

    @property
    def dtype(self) -> np.dtype[np.void]:
        """Fields of a record: `known` has a bit for each of `_IDS`; a missing or negative value counts nothing."""
        ids = [(name, "i8") for name in _IDS]
        numbers = [("prediction", "f8", (len(self.predictions),)), ("weight", "f8"), ("value", "f8"), *ids]
        codes = [("slice", "u2", (len(self.dimensions),)), ("ds", "u2"), ("label", "u1"), ("fault", "u1")]
        return np.dtype([*numbers, *codes, ("known", "u1")], align=True)

    def records(self, batch: pa.Table) -> tuple[NDArray[np.void], NDArray[np.uint16]]:
        """Records [n] of a batch and the unit of resampling of each: its user, else its request, else itself.

        Raises:
            GemlineError: a column is missing, or a label or weight is malformed.
        """
        needed = [*REQUIRED, *self.predictions, *(way.column for way in self.dimensions if way.column)]
        if missing := sorted({*needed} - {*batch.column_names}):
            raise GemlineError(
                f"evaluation rows lack {', '.join(missing)}; of those that are read they hold "
                f"{', '.join(batch.column_names) or 'none'}"
            )
        self.columns.update(name for name in batch.column_names if batch[name].null_count < len(batch))
        found = np.zeros(len(batch), dtype=self.dtype)
        tasks = self.tasks.codes(_column(batch, "task"))
        for place, dimension in enumerate(self.dimensions):
            column = _column(batch, dimension.column) if dimension.column else None
            found["slice"][:, place] = dimension.places(tasks, self.tasks.names, column)
        found["ds"] = self.days.codes(_column(batch, "ds"))
        for bit, name in enumerate(_IDS):
            if name in batch.column_names:
                column = _column(batch, name).cast(pa.int64())
                found[name] = column.fill_null(0).to_numpy(zero_copy_only=False)
                found["known"] |= column.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8) << bit
        self._numbers(batch, found)
        return found, self._units(found)

    def _numbers(self, batch: pa.Table, found: NDArray[np.void]) -> None:
        label, weight = _floats(batch, "label"), _floats(batch, "weight")
        if not np.isin(label, (0.0, 1.0)).all():
            bad = label[~np.isin(label, (0.0, 1.0))][0]
            raise GemlineError(f"metrics found label {bad}; labels must be 0 or 1, so drop rows without label")
        if (weight < 0).any():
            raise GemlineError(f"metrics found weight {weight.min()}; weights must not be negative")
        found["label"] = label
        for place, name in enumerate(self.predictions):
            p = _floats(batch, name)
            wrong = np.where(np.isfinite(p), np.where((p < 0) | (p > 1), 3, 0), 2)
            found["fault"] = np.where(found["fault"] > 0, found["fault"], wrong)
            # a slice with a fault has no metrics, so what stands in for it does not matter
            found["prediction"][:, place] = np.where(wrong > 0, 0.5, p)
        finite = np.isfinite(weight)
        found["fault"][~finite] = 1
        found["weight"] = np.where(finite, weight, 0.0)
        value = _floats(batch, "value") if "value" in batch.column_names else np.zeros(len(batch))
        found["value"] = np.where(np.isfinite(value) & (value > 0), value, 0.0)

    def _units(self, found: NDArray[np.void]) -> NDArray[np.uint16]:
        user, request, impression = (known(found, name) for name in _IDS)
        ids = np.where(user, found["user_id"], found["request_id"])
        alone = ~user & ~request
        rows = self._rows + np.arange(len(found))
        ids[alone] = np.where(impression, found["impression_id"], rows)[alone]
        self._rows += len(found)
        # another seed for each kind of id: user 7 and request 7 have nothing in common
        kinds = np.where(user, 0, np.where(request, _REQUEST, _ROW))
        units = units_of(ids, self.seed)
        for kind in (_REQUEST, _ROW):
            other = kinds == kind
            if other.any():
                units[other] = units_of(ids[other], ~self.seed & 0xFFFFFFFF | kind << 32)
        return units


def wanted_columns(predictions: Iterable[str], ways: Iterable[Dimension]) -> set[str]:
    """Columns that are read where they are there."""
    return {*REQUIRED, *predictions, *_IDS, "value", *(way.column for way in ways)}


def batches_of(rows: Rows, wanted: set[str]) -> Iterator[pa.Table]:
    """The wanted columns, as far as there are, as Arrow tables of at most `BATCH_ROWS` rows each."""
    for batch in [rows] if isinstance(rows, Batch) else rows:
        for start in range(0, max(len(batch), 1), BATCH_ROWS):
            if isinstance(batch, pd.DataFrame):
                part = batch.iloc[start : start + BATCH_ROWS]
                yield pa.table({name: pa.array(part[name], from_pandas=True) for name in part if name in wanted})
            else:
                table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
                names = [name for name in table.column_names if name in wanted]
                yield table.select(names).slice(start, BATCH_ROWS)


def _column(batch: pa.Table, name: str) -> pa.Array:
    column = batch.column(name).combine_chunks()
    return column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)


def _floats(batch: pa.Table, name: str) -> Floats:
    found: Floats = batch.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False)
    return found


def known(rows: NDArray[np.void], name: str) -> NDArray[np.bool_]:
    """Whether each record has an id."""
    found: NDArray[np.bool_] = (rows["known"] & (1 << _IDS.index(name))) > 0
    return found


def codes_within(sorted_ids: Integers) -> Integers:
    """0, 1, ... for the distinct ids of a sorted array: [n]."""
    return np.cumsum(np.concatenate(([False], sorted_ids[1:] != sorted_ids[:-1])))
