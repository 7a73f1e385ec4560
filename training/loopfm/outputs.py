"""`fm_outputs`: logits and vectors of impressions by every generation that is kept filled."""

import shutil
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from features.errors import GemlineError
from features.schema_of import history_days
from features.transform.sampling import kept
from training.chain import day_files
from training.compute import Compute, deterministic
from training.finite import NonFinite
from training.loopfm.freeze import BATCH, Rows
from training.loopfm.generation import Generation, coexisting, load
from training.loopfm.lists import lists
from training.plan import DayFiles
from training.reader import Reader
from training.reader import Rows as Examples
from training.recipes import cut_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from features.home import Home
    from features.tables import Tables

STAMP = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("ds", pa.string()),
        ("fm_generation", pa.string()),
        ("impression_id", pa.int64()),
        ("user_id", pa.int64()),
        ("surface", pa.string()),
        ("request_ts", STAMP),
        ("remembered", pa.bool_()),
        ("logits", pa.list_(pa.float32())),
        ("vector", pa.list_(pa.float32())),
    ]
)


@contextmanager
def fm_outputs(
    tables: "Tables", days: Sequence[str], pinned: Collection[str] = ()
) -> Iterator["tuple[DataFrame, dict[str, int]]"]:
    """Rows of `fm_outputs` of the given days, and how many each must have; the rows are files while this lasts.

    Raises:
        GemlineError: no generation yet, a pinned one is not readable, or a day of `examples` or `user_history` is not.
    """
    generations = [load(tables.home, manifest["name"]) for manifest in coexisting(tables.home, pinned)]
    history = history_days(tables.world, max(days))
    files = day_files(tables, "examples", days), day_files(tables, "user_history", history)
    readers = {one.ref.name: reader_of(one, *files, newest=one is generations[-1]) for one in generations}
    with staged(tables.home, "fm_outputs") as folder:
        expected = {}
        for ds in days:
            parts = []
            for one in generations:
                reader = readers[one.ref.name]
                parts.append(_day(one, reader, reader.examples(ds), ds))
            rows = pa.concat_tables(parts)
            expected[ds] = len(rows)
            pq.write_table(rows, folder / f"{ds}.parquet")
        yield tables.spark.read.parquet(str(folder)), expected


@contextmanager
def staged(home: "Home", what: str) -> Iterator[Path]:
    """A folder for files that are on their way into a table."""
    folder = home.folder("cache") / f"{what}-{uuid.uuid4().hex}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def reader_of(
    generation: Generation, examples: dict[str, DayFiles], user_history: dict[str, DayFiles], *, newest: bool
) -> Reader:
    """What reads for a generation; for one that is not the newest, without surfaces that it does not know.

    Those came after it was frozen, so nothing but a newer generation can say anything of them.
    """
    return Reader(Rows(generation.schema, examples, user_history), part=not newest)


@deterministic()
def scored(generation: Generation, reader: Reader, rows: Examples) -> tuple[np.ndarray, np.ndarray]:
    """Logits float32 [N, T] and vectors float32 [N, d] of rows of its reader.

    Raises:
        GemlineError: a row is of a surface that came after the generation was frozen, or a value is not finite.
    """
    require_known(generation, rows)
    logits = np.zeros((len(rows), len(generation.schema.tasks)), dtype=np.float32)
    vectors = np.zeros((len(rows), generation.ref.width), dtype=np.float32)
    cut = cut_of(generation.gem.config)
    if len(rows):
        for positions, batch in reader.batches(rows, generation.schema, BATCH, Compute.alone().share, cut):
            given, vector = generation.outputs(batch)
            logits[positions], vectors[positions] = given.numpy(), vector.numpy()
    if not (np.isfinite(logits).all() and np.isfinite(vectors).all()):
        raise NonFinite(f"generation {generation.ref.name} gives values that are not finite; freeze another one")
    return logits, vectors


def require_known(generation: Generation, rows: Examples) -> None:
    """Refuse rows of surfaces that a generation does not know.

    Raises:
        GemlineError: naming them.
    """
    unknown = sorted(set(rows.columns["surface"].values.tolist()) - set(generation.schema.surfaces))
    if unknown:
        raise GemlineError(
            f"generation {generation.ref.name} does not know the surfaces {', '.join(unknown)}, which the world got "
            "after it was frozen; let GEM train on a day with them, then freeze anew (gemline freeze)"
        )


def _day(generation: Generation, reader: Reader, rows: Examples, ds: str) -> pa.Table:
    logits, vectors = scored(generation, reader, rows)
    user, columns = rows.columns["user_id"], rows.columns
    count = len(rows)
    return pa.table(
        [
            pa.array([ds] * count, pa.string()),
            pa.array([generation.ref.name] * count, pa.string()),
            pa.array(rows.impression_id, pa.int64()),
            pa.array(user.values.astype(np.int64), pa.int64(), mask=user.missing),
            pa.array(columns["surface"].values, pa.string()),
            pa.array(columns["request_ts"].values, pa.int64()).cast(STAMP),
            pa.array(kept(rows.impression_id, columns["keep_rate"].values)),
            lists(logits),
            lists(vectors),
        ],
        schema=SCHEMA,
    )
