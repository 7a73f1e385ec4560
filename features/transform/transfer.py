"""What a vertical model gets from the foundation model, beside its own batch, as plain torch tensors.

Three things: the *memory* of a user (compressed representations of impressions of strictly earlier days), a
*precomputed vector* of the (surface, user, ad) with its source, and, in training only, the *teacher's* logits.
The same code builds them from tables in training and from the cache in serving. All of one call belongs to one
generation: vectors of two have nothing in common but their width.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from features.transform.columns import ColumnLike, as_column
from features.transform.histories import distinct, expand, first_not_below

SOURCES = ("none", "user", "exact")
"""Where a precomputed vector came from; the place in this tuple is the model's input."""


@dataclass(frozen=True)
class Transfer:
    """Of B examples that see R memories of M vectors in all, d wide.

    Attributes:
        memory_lengths: int64 [R].
        memory: float32 [M, d], oldest first within a memory.
        memory_age: float32 [M], seconds from the remembered request to this one, above 0.
        memory_row: int64 [B], index of the example's memory.
        vector: float32 [B, d]; zeros where the source is `none`.
        source: int64 [B], index in `SOURCES`.
        teacher: float32 [B, T], logits of the full log; read only where `taught`.
        taught: float32 [B, T], 1 where the teacher may teach.
    """

    memory_lengths: Tensor
    memory: Tensor
    memory_age: Tensor
    memory_row: Tensor
    vector: Tensor
    source: Tensor
    teacher: Tensor
    taught: Tensor

    def __len__(self) -> int:
        return len(self.source)

    def to(self, device: torch.device | str) -> "Transfer":
        """The same on another device."""
        return self._map(lambda tensor: tensor.to(device))

    def _map(self, function: Callable[[Tensor], Tensor]) -> "Transfer":
        moved: dict[str, Any] = {entry.name: function(getattr(self, entry.name)) for entry in fields(self)}
        return Transfer(**moved)


@dataclass(frozen=True)
class MemoryStore:
    """Representations of E impressions of U users, by user and then by time.

    Attributes:
        user_ids: int64 [U], sorted.
        offsets: int64 [U + 1].
        day: int64 [E], ordinal of the impression's local day, ascending within a user.
        request_us: int64 [E], UTC microseconds.
        vectors: float32 [E, d].
    """

    user_ids: np.ndarray
    offsets: np.ndarray
    day: np.ndarray
    request_us: np.ndarray
    vectors: np.ndarray

    @classmethod
    def from_arrays(
        cls,
        user_id: np.ndarray,
        day: np.ndarray,
        request_us: np.ndarray,
        impression_id: np.ndarray,
        vectors: np.ndarray,
    ) -> "MemoryStore":
        """Sort flat arrays [E] into a store; ties in time are broken by impression."""
        order = np.lexsort((impression_id, request_us, day, user_id))
        users, starts = np.unique(user_id[order], return_index=True)
        return cls(
            user_ids=users.astype(np.int64),
            offsets=np.append(starts, len(order)).astype(np.int64),
            day=np.asarray(day, dtype=np.int64)[order],
            request_us=np.asarray(request_us, dtype=np.int64)[order],
            vectors=np.asarray(vectors, dtype=np.float32)[order],
        )

    @classmethod
    def empty(cls, width: int) -> "MemoryStore":
        """Nobody remembered."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls.from_arrays(nothing, nothing, nothing, nothing, np.zeros((0, width), dtype=np.float32))


class Precomputed(NamedTuple):
    """Precomputed vectors float32 [B, d] of each example and their sources int64 [B]."""

    vector: np.ndarray
    source: np.ndarray

    @classmethod
    def none(cls, rows: int, width: int) -> "Precomputed":
        """Nothing was computed for any row."""
        return cls(np.zeros((rows, width), dtype=np.float32), np.zeros(rows, dtype=np.int64))


class Taught(NamedTuple):
    """Teacher's logits float32 [B, T] and where it may teach float32 [B, T]."""

    logits: np.ndarray
    mask: np.ndarray


def build_transfer(
    store: MemoryStore,
    columns: Mapping[str, ColumnLike],
    day: np.ndarray,
    length: int,
    precomputed: Precomputed,
    taught: Taught | None = None,
    tasks: int = 1,
) -> Transfer:
    """Transfer inputs of the same rows that `build_batch` turns into a batch.

    Args:
        store: memories of one generation; only vectors of days before an example's own are seen.
        columns: `user_id` and `request_ts` (int64 microseconds) are read.
        day: ordinals [B] of the examples' local days.
        length: newest vectors kept.
        precomputed: vectors of the same generation.
        taught: None when only scoring.
        tasks: T, when `taught` is left out.
    """
    rows = len(day)
    users, request_us = as_column(columns["user_id"]), as_column(columns["request_ts"]).values
    ids = np.where(users.missing, 0, users.values).astype(np.int64)
    user = np.searchsorted(store.user_ids, ids)
    known = ~users.missing & (user < len(store.user_ids))
    known[known] = store.user_ids[user[known]] == ids[known]
    keys = tuple(np.where(known, key, -1).astype(np.int64) for key in (user, day, request_us))
    first, row = distinct(keys)
    vector, counts = _select(store, keys[0][first], keys[1][first], length)
    age = np.repeat(request_us[first], counts) - store.request_us[vector]
    taught = taught or Taught(*(np.zeros((rows, tasks), dtype=np.float32) for _ in range(2)))
    return Transfer(
        memory_lengths=torch.from_numpy(counts),
        memory=torch.from_numpy(store.vectors[vector]),
        memory_age=torch.from_numpy((age / 1e6).astype(np.float32)),
        memory_row=torch.from_numpy(row),
        vector=torch.from_numpy(np.ascontiguousarray(precomputed.vector, dtype=np.float32)),
        source=torch.from_numpy(np.ascontiguousarray(precomputed.source, dtype=np.int64)),
        teacher=torch.from_numpy(np.ascontiguousarray(taught.logits, dtype=np.float32)),
        taught=torch.from_numpy(np.ascontiguousarray(taught.mask, dtype=np.float32)),
    )


def _select(store: MemoryStore, user: np.ndarray, day: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of each request's vectors, concatenated, and their counts (user -1: none)."""
    if not len(store.user_ids):
        return np.zeros(0, dtype=np.int64), np.zeros(len(user), dtype=np.int64)
    none, user = user < 0, np.maximum(user, 0)
    low, high = store.offsets[user], store.offsets[user + 1]
    end = np.where(none, low, first_not_below(store.day, low, high, day))
    begin = np.maximum(low, end - length)
    return expand(begin, end - begin), end - begin
