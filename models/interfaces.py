"""What models ask of a schema and of a batch, so that they do not import the feature packages.

`features.transform.schema.FeatureSchema`, `features.transform.batch.Batch` and
`features.transform.transfer.Transfer` fit; their docstrings hold the shapes.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from torch import Tensor


class TableInput(Protocol):
    """A categorical feature: a name and the table that it looks up."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def table(self) -> str: ...  # noqa: D102
    @property
    def side(self) -> str: ...  # noqa: D102
    @property
    def multi(self) -> bool: ...  # noqa: D102


class VectorInput(Protocol):
    """A content embedding: a name and its width."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def width(self) -> int: ...  # noqa: D102
    @property
    def side(self) -> str: ...  # noqa: D102


class SequenceInput(Protocol):
    """A history field: a name, its table and the categorical feature it is matched against."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def table(self) -> str: ...  # noqa: D102
    @property
    def candidate(self) -> str | None: ...  # noqa: D102


class SequenceInputs(Protocol):
    """The behaviour sequence."""

    @property
    def fields(self) -> Sequence[SequenceInput]: ...  # noqa: D102


class Task(Protocol):
    """Something to predict."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def primary(self) -> bool: ...  # noqa: D102


class Schema(Protocol):
    """Which inputs and outputs there are."""

    @property
    def categorical(self) -> Sequence[TableInput]: ...  # noqa: D102
    @property
    def history(self) -> SequenceInputs: ...  # noqa: D102
    @property
    def tables(self) -> Mapping[str, int]: ...  # noqa: D102
    @property
    def surfaces(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def event_types(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def tasks(self) -> Sequence[Task]: ...  # noqa: D102
    @property
    def dense_width(self) -> int: ...  # noqa: D102
    @property
    def content(self) -> Sequence[VectorInput]: ...  # noqa: D102
    def parent_on(self, task: str, surface: str) -> str | None: ...  # noqa: D102


class Inputs(Protocol):
    """A batch as the forward pass needs it: B examples that see R histories of L events in all."""

    @property
    def categorical(self) -> Mapping[str, Tensor]: ...  # noqa: D102
    @property
    def bags(self) -> Mapping[str, Tensor]: ...  # noqa: D102
    @property
    def bag_lengths(self) -> Mapping[str, Tensor]: ...  # noqa: D102
    @property
    def content(self) -> Mapping[str, Tensor]: ...  # noqa: D102
    @property
    def dense(self) -> Tensor: ...  # noqa: D102
    @property
    def history_lengths(self) -> Tensor: ...  # noqa: D102
    @property
    def history(self) -> Mapping[str, Tensor]: ...  # noqa: D102
    @property
    def history_age(self) -> Tensor: ...  # noqa: D102
    @property
    def history_type(self) -> Tensor: ...  # noqa: D102
    @property
    def history_span(self) -> Tensor: ...  # noqa: D102
    @property
    def rows_of_history(self) -> Tensor: ...  # noqa: D102
    @property
    def surface(self) -> Tensor: ...  # noqa: D102
    @property
    def keep_rate(self) -> Tensor: ...  # noqa: D102
    @property
    def label(self) -> Tensor: ...  # noqa: D102
    @property
    def mask(self) -> Tensor: ...  # noqa: D102
    @property
    def weight(self) -> Tensor: ...  # noqa: D102


class TransferInputs(Protocol):
    """What a vertical gets from the foundation model: memories, precomputed vectors, a teacher."""

    @property
    def memory_lengths(self) -> Tensor: ...  # noqa: D102
    @property
    def memory(self) -> Tensor: ...  # noqa: D102
    @property
    def memory_age(self) -> Tensor: ...  # noqa: D102
    @property
    def memory_row(self) -> Tensor: ...  # noqa: D102
    @property
    def vector(self) -> Tensor: ...  # noqa: D102
    @property
    def source(self) -> Tensor: ...  # noqa: D102
    @property
    def teacher(self) -> Tensor: ...  # noqa: D102
    @property
    def taught(self) -> Tensor: ...  # noqa: D102
