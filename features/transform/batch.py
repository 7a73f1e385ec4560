"""A batch: plain torch tensors of B examples, the only thing that a model ever sees.

Histories are kept per distinct request (R <= B of them) because all candidates of a request share one;
`history_row` says which history an example sees. Selecting, moving and joining batches keep that sharing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from features.transform.bags import bags_of
from features.transform.columns import Column, ColumnLike, as_column, column_of
from features.transform.content import content_inputs
from features.transform.dense import dense_inputs
from features.transform.hashing import map_distinct, rows_of, string_ids, table_salt
from features.transform.histories import Histories, HistoryStore, slice_histories
from features.transform.schema import FeatureSchema, SchemaError

__all__ = ["Batch", "Histories", "HistoryStore", "Labels", "build_batch", "concat", "slice_histories"]


class Labels(NamedTuple):
    """Labels, masks (1 where the pair's window has closed) and weights, each float32 [B, T]."""

    label: np.ndarray
    mask: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True)
class Batch:
    """B examples, R distinct histories of L events in all, T tasks.

    Attributes:
        categorical: single-valued feature -> int64 [B], table rows.
        dense: float32 [B, 2 D], see `features.transform.dense`.
        history_lengths: int64 [R].
        history: field -> int64 [L], table rows.
        history_age: float32 [L], seconds from event to request, above 0.
        history_type: int64 [L], 0 unknown else 1 + index in `schema.event_types`.
        history_span: float32 [R], seconds from the first kept event to the request; 0 without events.
        surface: int64 [B], index in `schema.surfaces`.
        keep_rate: float32 [B].
        label: float32 [B, T].
        mask: float32 [B, T]; zeros when only scoring.
        weight: float32 [B, T].
        impression_id: int64 [B].
        history_row: int64 [B], index of the example's history; by default its own (R = B).
        bags: multi-valued feature -> int64 [M], table rows of the examples' bags one after another.
        bag_lengths: multi-valued feature -> int64 [B], at least 1, see `features.transform.bags`.
        content: embedding -> float32 [B, width + 1], see `features.transform.content`.
    """

    categorical: dict[str, Tensor]
    dense: Tensor
    history_lengths: Tensor
    history: dict[str, Tensor]
    history_age: Tensor
    history_type: Tensor
    history_span: Tensor
    surface: Tensor
    keep_rate: Tensor
    label: Tensor
    mask: Tensor
    weight: Tensor
    impression_id: Tensor
    history_row: Tensor | None = None
    bags: dict[str, Tensor] = field(default_factory=dict)
    bag_lengths: dict[str, Tensor] = field(default_factory=dict)
    content: dict[str, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        """B."""
        return len(self.surface)

    @property
    def rows_of_history(self) -> Tensor:
        """`history_row`, or one history per example where that was left out: int64 [B]."""
        if self.history_row is not None:
            return self.history_row
        return torch.arange(len(self), device=self.surface.device)

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return self._map(lambda tensor: tensor.to(device))

    def _map(self, function: Callable[[Tensor], Tensor]) -> "Batch":
        moved: dict[str, Any] = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, dict):
                moved[entry.name] = {name: function(tensor) for name, tensor in value.items()}
            elif value is not None:
                moved[entry.name] = function(value)
        return Batch(**moved)

    def rows(self, index: slice | Sequence[int] | np.ndarray | Tensor) -> "Batch":
        """The selected examples in the given order; histories that none of them sees are dropped.

        Args:
            index: slice, integer indices or a bool mask [B].
        """
        picked = torch.arange(len(self), device=self.surface.device)[_index(index, self.surface.device)]
        used, history_row = torch.unique(self.rows_of_history[picked], return_inverse=True)
        event = _places(self.history_lengths, used)
        return replace(
            self,
            categorical={name: rows[picked] for name, rows in self.categorical.items()},
            bags={name: rows[_places(self.bag_lengths[name], picked)] for name, rows in self.bags.items()},
            bag_lengths={name: lengths[picked] for name, lengths in self.bag_lengths.items()},
            content={name: vectors[picked] for name, vectors in self.content.items()},
            history={name: rows[event] for name, rows in self.history.items()},
            history_lengths=self.history_lengths[used],
            history_age=self.history_age[event],
            history_type=self.history_type[event],
            history_span=self.history_span[used],
            history_row=history_row,
            **{name: getattr(self, name)[picked] for name in _PER_EXAMPLE},
        )


_PER_EXAMPLE = ("dense", "surface", "keep_rate", "label", "mask", "weight", "impression_id")


def _places(lengths: Tensor, picked: Tensor) -> Tensor:
    """Places of the items of picked lists, among those of all lists one after another."""
    starts, taken = (torch.cumsum(lengths, 0) - lengths)[picked], lengths[picked]
    ends = torch.cumsum(taken, 0)
    total = int(ends[-1]) if len(ends) else 0
    return torch.arange(total, device=lengths.device) + torch.repeat_interleave(starts - (ends - taken), taken)


def _index(index: slice | Sequence[int] | np.ndarray | Tensor, device: torch.device) -> slice | Tensor:
    if isinstance(index, slice):
        return index
    tensor = torch.as_tensor(index, device=device)
    return tensor if tensor.dtype == torch.bool else tensor.long()


def concat(batches: Sequence[Batch]) -> Batch:
    """Batches of one schema after one another.

    Raises:
        ValueError: on an empty sequence.
    """
    if not batches:
        raise ValueError("concat needs at least one batch: an empty list does not say which columns there are")
    shifts = np.cumsum([0, *(len(batch.history_lengths) for batch in batches[:-1])])
    rows = [batch.rows_of_history + int(shift) for batch, shift in zip(batches, shifts, strict=True)]
    names = (*_PER_EXAMPLE, "history_lengths", "history_age", "history_type", "history_span")
    whole: dict[str, Any] = {name: torch.cat([getattr(batch, name) for batch in batches]) for name in names}
    for group, held in vars(batches[0]).items():
        if isinstance(held, dict):
            whole[group] = {name: torch.cat([getattr(batch, group)[name] for batch in batches]) for name in held}
    return Batch(history_row=torch.cat(rows), **whole)


def build_batch(
    schema: FeatureSchema,
    columns: Mapping[str, ColumnLike],
    histories: Histories,
    labels: Labels | None = None,
) -> Batch:
    """Turn rows of `examples` into a batch, everything by name.

    Args:
        schema: what the model takes.
        columns: `impression_id`, `surface` (names), and the features; `keep_rate` is 1 where left out,
            features left out are
            missing, other columns are ignored. Strings are accepted for any categorical feature.
        histories: slices of the same examples, see `slice_histories`.
        labels: None when only scoring.

    Raises:
        SchemaError: on an unknown surface or rows that do not fit together.
    """
    rows = len(as_column(columns["surface"]).values)
    if len(histories.row) != rows:
        raise SchemaError(f"{rows} examples but histories of {len(histories.row)}; slice histories for the same rows")
    ages = histories.age_us.astype(np.float64) / 1e6
    starts = np.cumsum(histories.lengths) - histories.lengths
    span = np.zeros(len(histories.lengths))
    span[histories.lengths > 0] = ages[starts[histories.lengths > 0]]
    keep_rate = columns.get("keep_rate", np.ones(rows))
    if labels is None:
        labels = Labels(*(np.zeros((rows, len(schema.tasks)), dtype=np.float32) for _ in range(3)))
    bags = {
        entry.name: bags_of(column_of(columns, entry.name, rows), entry.table, schema.tables[entry.table])
        for entry in schema.categorical
        if entry.multi
    }
    return Batch(
        categorical={
            entry.name: _categorical(schema, columns, entry.name, rows)
            for entry in schema.categorical
            if not entry.multi
        },
        bags={name: torch.from_numpy(found.rows) for name, found in bags.items()},
        bag_lengths={name: torch.from_numpy(found.lengths) for name, found in bags.items()},
        content={
            entry.name: torch.from_numpy(content_inputs(entry, column_of(columns, entry.name, rows)))
            for entry in schema.content
        },
        dense=torch.from_numpy(dense_inputs(schema, columns, rows)),
        history_lengths=torch.from_numpy(histories.lengths),
        history={name: torch.from_numpy(rows_) for name, rows_ in histories.fields.items()},
        history_age=_float(ages),
        history_type=torch.from_numpy(histories.type),
        history_span=_float(span),
        surface=_surfaces(schema, as_column(columns["surface"])),
        keep_rate=_float(as_column(keep_rate).values),
        label=_float(labels.label),
        mask=_float(labels.mask),
        weight=_float(labels.weight),
        impression_id=torch.from_numpy(as_column(columns["impression_id"]).values.astype(np.int64)),
        history_row=torch.from_numpy(histories.row),
    )


def _float(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))


def _categorical(schema: FeatureSchema, columns: Mapping[str, ColumnLike], name: str, rows: int) -> Tensor:
    column = column_of(columns, name, rows)
    if column.values.dtype.kind in "OUST":
        ids = string_ids(column.values, column.missing)
    else:
        ids = np.where(column.missing, 0, column.values).astype(np.int64)
    table = schema.categorical_of(name).table
    return torch.from_numpy(rows_of(ids, column.missing, schema.tables[table], table_salt(table)))


def _surfaces(schema: FeatureSchema, column: Column) -> Tensor:
    places = {name: index for index, name in enumerate(schema.surfaces)}

    def place(name: str) -> int:
        if name not in places:
            raise SchemaError(f"surface '{name}' is not in the schema; known: {list(schema.surfaces)}")
        return places[name]

    if column.missing.any():
        raise SchemaError(f"{int(column.missing.sum())} examples have no surface; the ingest must set one")
    return torch.from_numpy(map_distinct(column.values, column.missing, place))
