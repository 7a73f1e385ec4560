"""Solaris' vectors: a frozen foundation model asked about (surface, user, ad) before anyone asks.

Features are those that a request at the run's instant would see, joined by the same code as examples; what only
a request can say (context columns, hour, weekday) is masked. Source: SOLARIS, arXiv 2604.12110 (summaries).
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from features.days import day_range, shift
from features.transform.precomputed import user_means
from training.chain import day_files
from training.loopfm.generation import Generation, coexisting, load
from training.loopfm.lists import lists
from training.loopfm.outputs import STAMP, reader_of, scored, staged
from training.parquet import read_columns
from training.plan import DayFiles
from training.reader import Reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from features.tables import Tables
    from features.worlds.schema import World

SCHEMA = pa.schema(
    [
        ("ds", pa.string()),
        ("run_ts", STAMP),
        ("fm_generation", pa.string()),
        ("surface", pa.string()),
        ("user_id", pa.int64()),
        ("ad_id", pa.int64()),
        ("vector", pa.list_(pa.float32())),
    ]
)


@contextmanager
def solaris_vectors(tables: "Tables", days: Sequence[str], pinned: Collection[str] = ()) -> Iterator["DataFrame"]:
    """Rows of `solaris_vectors` of the runs after the given days; they are files while this lasts.

    Raises:
        GemlineError: no generation yet, a pinned one is not readable, or a day that a run reads is not readable.
    """
    generations = [load(tables.home, manifest["name"]) for manifest in coexisting(tables.home, pinned)]
    history = day_files(tables, "user_history", day_range(tables.world.first_day, max(days)))
    with staged(tables.home, "solaris") as folder:
        features = _features(tables, days, folder / "features")
        (folder / "vectors").mkdir()
        for one in generations:
            reader = reader_of(one, features, history, newest=one is generations[-1])
            for ds in days:
                rows = _run(one, reader, ds, features[shift(ds, 1)])
                pq.write_table(rows, folder / "vectors" / f"{one.ref.name}-{ds}.parquet")
        yield tables.spark.read.parquet(str(folder / "vectors"))


def _features(tables: "Tables", days: Sequence[str], folder: Path) -> dict[str, DayFiles]:
    """Files of what a request at each run's instant would see of its candidates, by the day after the run's."""
    from features.examples import features_of

    asked = as_impressions(tables.read("solaris_candidates", days), tables.world)
    following = [shift(ds, 1) for ds in days]
    seen = masked(features_of(tables.spark, tables.world, following, tables, asked))
    seen.repartition("ds").write.partitionBy("ds").parquet(str(folder))
    return {
        ds: DayFiles("", tuple(sorted(str(path) for path in (folder / f"ds={ds}").glob("*.parquet"))))
        for ds in following
    }


def as_impressions(candidates: "DataFrame", world: "World") -> "DataFrame":
    """Candidates in the columns of `impressions`, asked for on the day after their run's, without context."""
    from pyspark.sql import functions as F

    context = [F.lit(None).cast("bigint").alias(name) for name in world.context_columns]
    context += [F.lit(None).cast("string").alias(name) for name in world.impression_texts]
    return candidates.select(
        F.xxhash64("ds", "surface", "user_id", "ad_id").alias("impression_id"),
        F.lit(None).cast("string").alias("request_id"),
        "user_id",
        "ad_id",
        "surface",
        F.col("run_ts").alias("request_ts"),
        F.lit(1.0).alias("keep_rate"),
        F.date_format(F.date_add(F.to_date("ds"), 1), "yyyy-MM-dd").alias("ds"),
        *context,
    )


def masked(examples: "DataFrame") -> "DataFrame":
    """Without what only a request can say of itself."""
    from pyspark.sql import functions as F

    return examples.withColumns({name: F.lit(None).cast("bigint") for name in ("hour", "weekday")})


def _run(generation: Generation, reader: Reader, ds: str, files: DayFiles) -> pa.Table:
    """Vectors of one run and, beside them, each user's mean on each surface."""
    rows = reader.examples(shift(ds, 1))
    _, vectors = scored(generation, reader, rows)
    ad = _ads(files, rows.impression_id, shift(ds, 1))
    surface, user = rows.columns["surface"].values.astype(str), rows.columns["user_id"].values.astype(np.int64)
    order = np.lexsort((ad, user, surface))
    surface, user, ad, vectors = surface[order], user[order], ad[order], vectors[order]
    mean_surface, mean_user, means = user_means(surface, user, vectors)
    stamp = rows.columns["request_ts"].values[:1]
    whole = np.concatenate([vectors, means])
    count, own = len(whole), len(ad)
    return pa.table(
        [
            pa.array([ds] * count, pa.string()),
            pa.array(np.repeat(stamp, count), pa.int64()).cast(STAMP),
            pa.array([generation.ref.name] * count, pa.string()),
            pa.array(np.concatenate([surface, mean_surface]).astype(object), pa.string()),
            pa.array(np.concatenate([user, mean_user]), pa.int64()),
            pa.array(np.concatenate([ad, np.zeros(count - own, dtype=np.int64)]), mask=np.arange(count) >= own),
            lists(whole),
        ],
        schema=SCHEMA,
    )


def _ads(files: DayFiles, impression: np.ndarray, ds: str) -> np.ndarray:
    """Ad id of each of these impressions, in their order, whether or not ads are a categorical feature of the world."""
    columns = read_columns(files, ["impression_id", "ad_id"], "solaris features", ds)
    order = np.argsort(columns["impression_id"].values, kind="stable")
    order = order[np.searchsorted(columns["impression_id"].values[order], impression)]
    assert (columns["impression_id"].values[order] == impression).all()
    found: np.ndarray = columns["ad_id"].values[order]
    return found
