"""What a vertical reads beside examples and labels: GEM's outputs and precomputed vectors, a generation at a time."""

from collections.abc import Iterator, Sequence
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from features.errors import GemlineError
from features.transform.batch import Batch
from features.transform.histories import HistoryCut
from features.transform.schema import FeatureSchema
from features.transform.transfer import SOURCES, MemoryStore, Precomputed, Taught, Transfer, build_transfer
from training.compute import Compute
from training.loopfm.lists import matrix
from training.plan import DayFiles, GenerationRef, Plan, TransferPlan
from training.reader import Reader, Rows


class Lessons:
    """All that one generation left for the plan's days."""

    def __init__(self, plan: TransferPlan, generation: GenerationRef) -> None:
        """Read its rows of `fm_outputs` and `solaris_train_vectors`.

        Raises:
            GemlineError: a vector has another width than the generation's.
        """
        self.generation = generation
        self.memory_length = plan.memory_length
        outputs = _rows("fm_outputs", plan.fm_outputs, generation.name, _OUTPUTS)
        kept = pc.and_(outputs["remembered"], pc.is_valid(outputs["user_id"]))
        self.memory = _memory(outputs.filter(kept), generation)
        self._output = _Keyed(outputs)
        self._logits = matrix(outputs["logits"], "fm_outputs.logits", len(generation.tasks))
        vectors = _rows("solaris_train_vectors", plan.vectors, generation.name, _VECTORS)
        self._vector = _Keyed(vectors)
        self._precomputed = _precomputed(vectors, generation)

    def of(self, rows: Rows, schema: FeatureSchema) -> Transfer:
        """Transfer inputs of some rows, for a model of this schema."""
        keys = (rows.day, rows.impression_id)
        return build_transfer(
            self.memory, rows.columns, rows.day, self.memory_length, self._vectors(*keys), self._taught(*keys, schema)
        )

    def precomputed(self, rows: Rows) -> Precomputed:
        """Precomputed vectors of some rows."""
        return self._vectors(rows.day, rows.impression_id)

    def _vectors(self, day: np.ndarray, impression: np.ndarray) -> Precomputed:
        at, known = self._vector.find(day, impression)
        vector = np.zeros((len(day), self.generation.width), dtype=np.float32)
        source = np.zeros(len(day), dtype=np.int64)
        vector[known], source[known] = self._precomputed.vector[at[known]], self._precomputed.source[at[known]]
        return Precomputed(vector, source)

    def _taught(self, day: np.ndarray, impression: np.ndarray, schema: FeatureSchema) -> Taught:
        """The teacher has seen labels up to a day, so it teaches examples of later days only."""
        at, known = self._output.find(day, impression)
        may = known & (day > date.fromisoformat(self.generation.last_label_day).toordinal())
        logits, mask = (np.zeros((len(day), len(schema.tasks)), dtype=np.float32) for _ in range(2))
        for column, task in enumerate(schema.task_names):
            if task in self.generation.tasks:
                logits[may, column] = self._logits[at[may], self.generation.tasks.index(task)]
                mask[may, column] = 1.0
        return Taught(logits, mask)


class VerticalReader(Reader):
    """A reader of a part of the world that also knows what the foundation model left."""

    def __init__(self, plan: Plan, schemas: Sequence[FeatureSchema], generations: Sequence[GenerationRef]) -> None:
        """Read histories and lessons; examples and labels are read when asked for."""
        super().__init__(plan, schemas, part=True)
        assert plan.transfer is not None
        self._lessons = {one.name: Lessons(plan.transfer, one) for one in generations}

    def lessons_of(self, generation: str) -> Lessons:
        """What one of the reader's generations left."""
        return self._lessons[generation]

    def lessons(
        self, rows: Rows, schema: FeatureSchema, generation: str, batch_size: int, cut: HistoryCut
    ) -> Iterator[tuple[np.ndarray, Batch, Transfer]]:
        """Batches of rows with their transfer inputs, in order; see `Reader.batches`."""
        share = Compute.alone().share
        for positions, batch in self.batches(rows, schema, batch_size, share, cut):
            yield positions, batch, self._lessons[generation].of(rows.take(positions), schema)


_OUTPUTS = ("impression_id", "user_id", "request_ts", "remembered", "logits", "vector")
_VECTORS = ("impression_id", "source", "vector")


class _Keyed:
    """Rows by (day, impression)."""

    def __init__(self, table: pa.Table) -> None:
        self.day = table["day"].to_numpy()
        self.impression = table["impression_id"].to_numpy()
        self.order = np.lexsort((self.impression, self.day))
        self.keys = _pairs(self.day[self.order], self.impression[self.order])

    def find(self, day: np.ndarray, impression: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places [N] of the asked rows, and whether they are there."""
        wanted = _pairs(day, impression)
        at = np.searchsorted(self.keys, wanted)
        known = at < len(self.keys)
        known[known] = self.keys[at[known]] == wanted[known]
        place = np.zeros(len(day), dtype=np.int64)
        place[known] = self.order[at[known]]
        return place, known


def _pairs(day: np.ndarray, impression: np.ndarray) -> np.ndarray:
    found = np.empty(len(day), dtype=[("day", np.int64), ("impression", np.int64)])
    found["day"], found["impression"] = day, impression
    return found


def _rows(table: str, files: dict[str, DayFiles], generation: str, names: Sequence[str]) -> pa.Table:
    """The generation's rows of all days, with the day's ordinal as `day`."""
    parts = []
    for ds in sorted(files):
        for path in files[ds].paths:
            with pq.ParquetFile(path) as file:
                missing = sorted({"fm_generation", *names} - set(file.schema_arrow.names))
                if missing:
                    raise GemlineError(f"{table} of {ds}: {path} has no columns {missing}; materialize that day again")
                part = file.read(columns=["fm_generation", *names])
            part = part.filter(pc.equal(part["fm_generation"], generation))
            parts.append(part.append_column("day", pa.array(np.full(len(part), date.fromisoformat(ds).toordinal()))))
    if parts:
        return pa.concat_tables(parts).combine_chunks()
    nothing = {name: pa.array([], _TYPES[name]) for name in names}
    return pa.table({**nothing, "day": pa.array([], pa.int64())})


_TYPES: dict[str, pa.DataType] = {
    "impression_id": pa.int64(),
    "user_id": pa.int64(),
    "request_ts": pa.timestamp("us", "UTC"),
    "remembered": pa.bool_(),
    "source": pa.string(),
    "logits": pa.list_(pa.float32()),
    "vector": pa.list_(pa.float32()),
}


def _memory(rows: pa.Table, generation: GenerationRef) -> MemoryStore:
    stamps = rows["request_ts"].cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.int64())
    return MemoryStore.from_arrays(
        user_id=rows["user_id"].to_numpy(),
        day=rows["day"].to_numpy(),
        request_us=stamps.to_numpy(),
        impression_id=rows["impression_id"].to_numpy(),
        vectors=matrix(rows["vector"], "fm_outputs.vector", generation.width),
    )


def _precomputed(rows: pa.Table, generation: GenerationRef) -> Precomputed:
    places = {name: index for index, name in enumerate(SOURCES)}
    source = np.array([places[name] for name in rows["source"].to_pylist()], dtype=np.int64)
    vector = np.zeros((len(rows), generation.width), dtype=np.float32)
    held = rows.filter(pa.array(source > 0))
    vector[source > 0] = matrix(held["vector"], "solaris_train_vectors.vector", generation.width)
    return Precomputed(vector, source)
