"""Filling the cache that requests are answered from with what was published: memories and precomputed vectors.

What is given of a day replaces all that the cache holds of it, so a restated day leaves no ghost.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from features.clock import run_instant
from features.days import micros, micros_of
from features.home import Home
from features.worlds import World
from serving.solaris.cache import VectorCache

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from features.tables import Tables


def cache_of(world: World, home: Home) -> VectorCache:
    """The world's cache."""
    return VectorCache(home.folder("cache") / "vectors.db", micros_of(world.precompute.life))


def remember(tables: "Tables", days: Sequence[str]) -> dict[str, int]:
    """Let published rows of `fm_outputs` be remembered; doing it again changes nothing.

    Users who lose a row of these days are remembered anew from all published days, since what was pushed out by that
    row may come back.

    Returns:
        Generation -> rows given.
    """
    cache, keep = cache_of(tables.world, tables.home), tables.world.transfer.memory_length
    found = dict(_by_generation(_memories(tables, days).toArrow()))
    with tables.home.writing(f"remembering {days[0]}..{days[-1]}"):
        for generation in sorted({*cache.generations(), *found}):
            part = found.get(generation)
            given = set() if part is None else _pairs(part)
            lost = {user for user, _ in cache.remembered(generation, days) - given}
            rows = [] if part is None else list(_rows(part))
            if lost:
                rows += _rows(_newest_of(tables, generation, lost, keep).toArrow())
            cache.remember(generation, rows, keep, days)
    return {generation: len(part) for generation, part in found.items()}


def publish_runs(tables: "Tables", days: Sequence[str]) -> dict[str, int]:
    """Let the published runs of `solaris_vectors` after the given days be looked up.

    A run that the cache holds is replaced, or deleted when nothing is left of it; an older one that nobody can ask
    for any more changes nothing.

    Returns:
        Generation -> runs that are held now.
    """
    counts: dict[str, int] = {}
    cache = cache_of(tables.world, tables.home)
    with tables.home.writing(f"publishing vectors of {days[0]}..{days[-1]}"):
        # a run keeps its predecessor for requests stamped before it; older ones nobody can ask for
        for ds in days[-2:]:
            run_us = micros(run_instant(tables.world, ds))
            found = dict(_by_generation(tables.read("solaris_vectors", [ds]).toArrow()))
            for generation in sorted({*cache.generations(), *found}):
                part = found.get(generation)
                names = ("surface", "user_id", "ad_id")
                rows = [] if part is None else _with_vectors(part, [part[name] for name in names])
                done = cache.publish_run(generation, run_us, rows)
                if part is not None:
                    counts[generation] = counts.get(generation, 0) + int(done)
    return counts


def _memories(tables: "Tables", days: Sequence[str]) -> "DataFrame":
    """What of some days of `fm_outputs` is remembered."""
    rows = tables.read("fm_outputs", days).where("remembered and user_id is not null")
    return rows.select("fm_generation", "user_id", "ds", "request_ts", "impression_id", "vector")


def _newest_of(tables: "Tables", generation: str, users: Collection[int], keep: int) -> "DataFrame":
    """The newest `keep` memories of some users, in all published days."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    asked = F.broadcast(tables.spark.createDataFrame([(user,) for user in sorted(users)], "user_id BIGINT"))
    own = _memories(tables, list(tables.readable_days("fm_outputs"))).where(F.col("fm_generation") == generation)
    newest = Window.partitionBy("user_id").orderBy(*(F.desc(name) for name in ("ds", "request_ts", "impression_id")))
    ranked = own.join(asked, "user_id", "left_semi").withColumn("place", F.row_number().over(newest))
    return ranked.where(F.col("place") <= keep).drop("place")


def _by_generation(rows: "pa.Table") -> Iterator[tuple[str, "pa.Table"]]:
    import pyarrow.compute as pc

    for name in sorted(pc.unique(rows["fm_generation"]).to_pylist()):
        yield name, rows.filter(pc.equal(rows["fm_generation"], name))


def _pairs(rows: "pa.Table") -> set[tuple[int, int]]:
    return set(zip(rows["user_id"].to_pylist(), rows["impression_id"].to_pylist(), strict=True))


def _rows(rows: "pa.Table") -> Iterator[Any]:
    """Memories as `VectorCache.remember` takes them."""
    return _with_vectors(rows, [rows["user_id"], rows["ds"], _micros(rows["request_ts"]), rows["impression_id"]])


def _with_vectors(rows: "pa.Table", columns: Sequence["pa.ChunkedArray"]) -> Iterator[Any]:
    from training.loopfm.lists import matrix

    return zip(*(column.to_pylist() for column in columns), matrix(rows["vector"], "vector"), strict=True)


def _micros(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    import pyarrow as pa

    return column.cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.int64())
