"""From the plan's Parquet files to batches: a day's examples, a day's labelled examples, the gate's rows.

Every process reads the same files and takes its share of each global batch, one run of rows, so that all of
them make the same number of steps and each row is used exactly once. Training order shuffles requests and keeps
the candidates of one together: its user side is then computed once a batch, not once a row. The order is a
function of the seed and the day alone.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Protocol

import numpy as np
import torch

from features.errors import GemlineError
from features.transform.batch import Batch, HistoryStore, Labels, build_batch, slice_histories
from features.transform.columns import Column, joined
from features.transform.histories import HistoryCut, requests_of
from features.transform.schema import FeatureSchema
from training.mapped_histories import histories
from training.parquet import read_columns
from training.plan import DayFiles

KEYS = ("impression_id", "user_id", "surface", "request_ts", "keep_rate")
"""Columns of `examples` that are read whatever the features are."""

CHUNK_ROWS = 8192
"""Rows turned into tensors at once: hashing and slicing cost less per row than batch by batch."""

CACHED_DAYS = 100
"""Days of examples kept in memory; late labels come back to them."""


class ReaderError(GemlineError):
    """The plan's files do not fit together."""


@dataclass(frozen=True)
class Rows:
    """N examples, of one day or several.

    Attributes:
        columns: name -> N values and their missing marks.
        day: ordinals of the examples' days [N].
        labels: float32 [N, T] each; None when only scoring.
    """

    columns: dict[str, Column]
    day: np.ndarray
    labels: Labels | None = None

    def __len__(self) -> int:
        return len(self.day)

    @property
    def impression_id(self) -> np.ndarray:
        """Int64 [N]."""
        return self.columns["impression_id"].values

    def take(self, index: np.ndarray) -> "Rows":
        """The rows at integer positions, in that order."""
        columns = {name: Column(column.values[index], column.missing[index]) for name, column in self.columns.items()}
        labels = None if self.labels is None else Labels(*(part[index] for part in self.labels))
        return Rows(columns, self.day[index], labels)


@dataclass(frozen=True)
class Share:
    """This process's part of every global batch."""

    rank: int = 0
    world: int = 1

    def of(self, rows: int, batch_size: int) -> list[np.ndarray]:
        """Positions of this process's rows in each global batch; one may be empty, their number is common."""
        batches = (np.arange(start, min(start + batch_size, rows)) for start in range(0, rows, batch_size))
        return [np.array_split(batch, self.world)[self.rank] for batch in batches]


class Files(Protocol):
    """What a reader must know of a plan: what the rows are for, and which files hold them."""

    @property
    def schema(self) -> FeatureSchema: ...  # noqa: D102
    @property
    def seed(self) -> int: ...  # noqa: D102
    @property
    def examples(self) -> dict[str, DayFiles]: ...  # noqa: D102
    @property
    def labels(self) -> dict[str, DayFiles]: ...  # noqa: D102
    @property
    def user_history(self) -> dict[str, DayFiles]: ...  # noqa: D102


class Reader:
    """All that a plan lets a run read."""

    def __init__(self, plan: Files, schemas: Sequence[FeatureSchema] = (), *, part: bool = False) -> None:
        """Read the histories; days of examples and labels are read when asked for.

        Args:
            plan: names the files.
            schemas: of further models that score the same rows; their columns are read too.
            part: the schema names a part of the world: rows of other surfaces and pairs of other tasks are
                left out, instead of being a fault.
        """
        self.plan = plan
        self.schema = plan.schema
        self.part = part
        asked = (plan.schema, *schemas)
        self._columns = sorted({name for one in asked for name in one.feature_names} | set(KEYS))
        fields = list(dict.fromkeys(entry.name for one in asked for entry in one.history.fields))
        self.histories: HistoryStore = histories(plan.user_history, fields)
        self._examples: OrderedDict[str, Rows] = OrderedDict()

    def examples(self, day: str) -> Rows:
        """Examples of a day, sorted by impression.

        Raises:
            ReaderError: the plan lists no such day, or an impression is there twice.
        """
        return self._own(self._all_examples(day))

    def _own(self, rows: Rows) -> Rows:
        if not self.part:
            return rows
        return rows.take(np.flatnonzero(np.isin(rows.columns["surface"].values, self.schema.surfaces)))

    def _all_examples(self, day: str) -> Rows:
        if day not in self._examples:
            files = _files_of(self.plan.examples, "examples", day)
            columns = read_columns(files, self._columns, "examples", day)
            order = np.argsort(columns["impression_id"].values, kind="stable")
            ids = columns["impression_id"].values[order]
            if (np.diff(ids) == 0).any():
                twice = ids[1:][np.diff(ids) == 0][0]
                raise ReaderError(f"examples of {day} hold impression {twice} twice; publish that day again")
            self._examples[day] = Rows(columns, np.full(len(ids), _ordinal(day))).take(order)
            while len(self._examples) > CACHED_DAYS:
                self._examples.popitem(last=False)
        self._examples.move_to_end(day)
        return self._examples[day]

    def labelled(self, label_day: str) -> Rows:
        """Examples with pairs of `label_ds` = `label_day`, these pairs as their labels, in training order.

        Raises:
            ReaderError: a pair without its example, a pair twice, or an unknown task.
        """
        rows = self._join(self._pairs(label_day), label_day)
        generator = np.random.default_rng([self.plan.seed, _ordinal(label_day)])
        return rows.take(_shuffled_requests(rows, generator))

    def gate(self, day: str) -> Rows:
        """What the model of a day is judged on: its examples, then those of judged pairs with that `label_ds`."""
        today = self.examples(day)
        primary = [self.schema.task_names.index(name) for name in self.schema.judged_tasks]
        pairs = self._pairs(day)
        pairs = pairs.take(np.isin(pairs.task, primary) & (pairs.ds != day))
        earlier = self._join(pairs, day) if len(pairs) else today.take(np.arange(0))
        return _concat([today, replace(earlier, labels=None)])

    def batches(
        self, rows: Rows, schema: FeatureSchema, batch_size: int, share: Share, cut: HistoryCut
    ) -> Iterator[tuple[np.ndarray, Batch]]:
        """This process's part of each global batch.

        Args:
            rows: in the order of the batches.
            schema: of the model that is fed.
            batch_size: rows of a global batch.
            share: which part is this process's.
            cut: which events are sliced.

        Yields:
            Positions in `rows` [b], and their batch of b rows. Where b = 0 the batch is one row without labels,
            whose scores nobody takes: sharded lookups are not safe with no rows at all.
        """
        parts = share.of(len(rows), batch_size)
        together = max(1, CHUNK_ROWS // batch_size) if batch_size < CHUNK_ROWS else 1
        for first in range(0, len(parts), together):
            chunk = parts[first : first + together]
            taken = [
                part if len(part) else np.array([(first + number) * batch_size]) for number, part in enumerate(chunk)
            ]
            built = self._batch(rows.take(np.concatenate(taken)), schema, cut)
            start = 0
            for part, held in zip(chunk, taken, strict=True):
                batch = built.rows(slice(start, start + len(held)))
                yield part, batch if len(part) else replace(batch, mask=torch.zeros_like(batch.mask))
                start += len(held)

    def _batch(self, rows: Rows, schema: FeatureSchema, cut: HistoryCut) -> Batch:
        histories = slice_histories(
            schema,
            self.histories,
            rows.columns["user_id"],
            rows.day,
            rows.columns["request_ts"].values,
            cut,
        )
        return build_batch(schema, rows.columns, histories, rows.labels)

    def _pairs(self, label_day: str) -> "_Pairs":
        files = _files_of(self.plan.labels, "labels", label_day)
        columns = read_columns(files, ["ds", "impression_id", "task", "label", "weight"], "labels", label_day)
        names = columns["task"].values
        places = {name: index for index, name in enumerate(self.schema.task_names)}
        unknown = sorted(set(names.tolist()) - set(places))
        if unknown and self.part:
            kept = np.flatnonzero(np.isin(names, list(places)))
            columns = {name: Column(column.values[kept], column.missing[kept]) for name, column in columns.items()}
            names = columns["task"].values
        elif unknown:
            raise ReaderError(f"labels of {label_day} hold tasks {unknown}; the schema knows {list(places)}")
        task = np.array([places[name] for name in names], dtype=np.int64)
        values = (columns[name].values for name in ("ds", "impression_id", "label", "weight"))
        ds, impression, label, weight = values
        pairs = _Pairs(ds.astype("U10"), impression, task, label, weight)
        pairs = pairs.take(np.lexsort((task, impression, pairs.ds)))
        if (at := pairs.repeated()) is not None:
            name = self.schema.task_names[pairs.task[at]]
            raise ReaderError(
                f"labels of {label_day} hold the pair of impression {pairs.impression[at]} of {pairs.ds[at]} "
                f"and task {name} twice; publish that day again"
            )
        return pairs

    def _join(self, pairs: "_Pairs", label_day: str) -> Rows:
        """One row for each distinct example of the pairs; pairs fill label, mask and weight at their task.

        Pairs of surfaces that are not the schema's are left out of a part.
        """
        days, found = np.unique(pairs.ds), []
        row = np.zeros(len(pairs), dtype=np.int64)
        before = 0
        for day in days.tolist():
            mine = np.flatnonzero(pairs.ds == day)
            examples = self._examples_for(day, label_day, pairs.impression[mine[0]])
            wanted, inverse = np.unique(pairs.impression[mine], return_inverse=True)
            place = np.searchsorted(examples.impression_id, wanted)
            held = place < len(examples)
            held[held] = examples.impression_id[place[held]] == wanted[held]
            if not held.all():
                raise _orphan(label_day, day, wanted[~held][0], "examples of that day do not hold it")
            found.append(examples.take(place))
            row[mine] = before + inverse
            before += len(wanted)
        rows = _concat(found or [self._all_examples(label_day).take(np.arange(0))])
        label, mask, weight = (np.zeros((len(rows), len(self.schema.tasks)), np.float32) for _ in range(3))
        label[row, pairs.task], weight[row, pairs.task] = pairs.label, pairs.weight
        mask[row, pairs.task] = 1.0
        return self._own(replace(rows, labels=Labels(label, mask, weight)))

    def _examples_for(self, day: str, label_day: str, impression: int) -> Rows:
        if day not in self.plan.examples:
            raise _orphan(label_day, day, impression, "the plan lists no examples of that day")
        return self._all_examples(day)


@dataclass(frozen=True)
class _Pairs:
    """Pairs (impression, task) whose window closed on one day, as arrays [M]."""

    ds: np.ndarray
    impression: np.ndarray
    task: np.ndarray
    label: np.ndarray
    weight: np.ndarray

    def __len__(self) -> int:
        return len(self.task)

    def take(self, index: np.ndarray) -> "_Pairs":
        return _Pairs(self.ds[index], self.impression[index], self.task[index], self.label[index], self.weight[index])

    def repeated(self) -> int | None:
        """Position of the first pair, of sorted ones, that is there twice."""
        same = (np.diff(self.impression) == 0) & (np.diff(self.task) == 0) & (self.ds[1:] == self.ds[:-1])
        return int(np.flatnonzero(same)[0]) if same.any() else None


def _orphan(label_day: str, day: str, impression: int, why: str) -> ReaderError:
    return ReaderError(
        f"labels of {label_day} hold a pair of impression {impression} of {day}, but {why}; "
        f"publish examples of {day} and labels of {label_day} from the same impressions"
    )


def _files_of(files: dict[str, DayFiles], table: str, day: str) -> DayFiles:
    if day not in files:
        raise ReaderError(f"the plan lists no '{table}' of {day}; add that day's files to it")
    return files[day]


def _ordinal(day: str) -> int:
    return date.fromisoformat(day).toordinal()


def _shuffled_requests(rows: Rows, generator: np.random.Generator) -> np.ndarray:
    """Positions of all rows, request after request in random order."""
    first, request = requests_of(rows.columns["user_id"], rows.day, rows.columns["request_ts"].values)
    return np.argsort(generator.permutation(len(first))[request], kind="stable")


def _concat(parts: Sequence[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    columns = {name: joined([part.columns[name] for part in parts]) for name in parts[0].columns}
    return Rows(columns, np.concatenate([part.day for part in parts]))
