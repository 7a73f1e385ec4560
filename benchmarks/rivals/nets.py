"""DIN and DCNv2 of a public library, fed with exactly what GEM is fed with.

Ids are hashed into the same tables, histories are the same slices; numbers become quantile buckets with
embeddings of their own, since a logarithm hides popularity from a net. Rows come in the trainer's order, once.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.rivals.boosting import full_log
from benchmarks.rivals.dataset import Dataset
from benchmarks.rivals.environment import run_script
from features.transform.batch import Batch, build_batch, slice_histories
from training.metrics import Floats
from training.reader import Rows

BUCKETS = 32
"""Quantile buckets of a number; one more says that it is missing."""
HISTORY = 100


@dataclass(frozen=True)
class Net:
    """A peer.

    Attributes:
        model: `din` or `dcnv2`.
        settings: of the library's class, and `batch_size`.
        history: newest events that it sees.
    """

    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    history: int = HISTORY

    def __call__(self, dataset: Dataset, seed: int) -> Floats:
        """Probabilities in the full log of the judged rows."""
        fit = dataset.fit.take(in_training_order(dataset.fit, seed))
        assert fit.labels is not None
        batches = {"fit": self._batch(dataset, fit), "judged": self._batch(dataset, dataset.judged)}
        edges = _edges(dataset, fit)
        arrays: dict[str, np.ndarray] = {}
        for part, batch in batches.items():
            rows = fit if part == "fit" else dataset.judged
            arrays |= {f"{part}_{name}": values for name, values in self._arrays(dataset, batch, rows, edges).items()}
        settings = {"model": self.model, **self.settings}
        arrays |= {
            "label": fit.labels.label[:, 0],
            "sizes": np.array(_sizes(dataset)),
            "settings": np.array(json.dumps(settings)),
            "seed": np.array(seed),
        }
        return full_log(run_script("ctr.py", arrays)[0], dataset.judged)

    def _batch(self, dataset: Dataset, rows: Rows) -> Batch:
        """All rows at once, as the reader makes a model's batch."""
        schema = dataset.files.schema
        schema = replace(schema, history=replace(schema.history, length=self.history))
        columns, store = rows.columns, dataset.reader.histories
        slices = slice_histories(schema, store, columns["user_id"], rows.day, columns["request_ts"].values)
        return build_batch(schema, columns, slices)

    def _arrays(self, dataset: Dataset, batch: Batch, rows: Rows, edges: dict[str, Floats]) -> dict[str, np.ndarray]:
        codes = [batch.categorical[name].numpy() for name in _plain(dataset)]
        codes += [_buckets(rows, name, edges[name]) for name in edges]
        codes += [batch.categorical[name].numpy() for name in _items(dataset)]
        lengths = batch.history_lengths.numpy()
        newest_last = np.arange(self.history) >= self.history - lengths[:, None]
        events = np.zeros((len(lengths), self.history, len(batch.history)), dtype=np.int32)
        for place, field_ in enumerate(dataset.files.schema.history.fields):
            events[newest_last, place] = batch.history[field_.name].numpy()
        return {
            "codes": np.stack(codes, axis=1).astype(np.int32),
            "row": batch.rows_of_history.numpy(),
            "events": events,
            "known": newest_last,
        }


def in_training_order(rows: Rows, seed: int) -> np.ndarray:
    """Day by day, shuffled within a day."""
    return np.lexsort((np.random.default_rng(seed).random(len(rows)), rows.day))


def _items(dataset: Dataset) -> list[str]:
    """Features of the candidate that its history has too, in the order of the history's fields."""
    return [field_.candidate for field_ in dataset.files.schema.history.fields if field_.candidate]


def _plain(dataset: Dataset) -> list[str]:
    return [feature.name for feature in dataset.files.schema.categorical if feature.name not in _items(dataset)]


def _sizes(dataset: Dataset) -> list[int]:
    """Embedding rows of each field, in the order of the codes."""
    schema = dataset.files.schema
    rows = {feature.name: schema.tables[feature.table] for feature in schema.categorical}
    plain, items = ([rows[name] for name in names] for names in (_plain(dataset), _items(dataset)))
    return [*plain, *[BUCKETS + 1] * len(schema.dense), *items]


def _edges(dataset: Dataset, rows: Rows) -> dict[str, Floats]:
    """Inner quantiles of each number over the fitted rows."""
    found = {}
    for feature in dataset.files.schema.dense:
        column = rows.columns[feature.name]
        known = column.values[~column.missing]
        inner = np.arange(1, BUCKETS) / BUCKETS
        found[feature.name] = np.unique(np.quantile(known, inner)) if len(known) else np.zeros(0)
    return found


def _buckets(rows: Rows, name: str, edges: Floats) -> np.ndarray:
    column = rows.columns[name]
    return np.where(column.missing, 0, 1 + np.searchsorted(edges, column.values, side="right"))
