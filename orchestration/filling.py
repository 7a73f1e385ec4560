"""Filling the cache that requests are answered from with what was published: memories and precomputed vectors."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from features.days import micros_of
from features.home import Home
from features.worlds import World
from serving.solaris.cache import VectorCache

if TYPE_CHECKING:
    import pyarrow as pa

    from features.tables import Tables


def cache_of(world: World, home: Home) -> VectorCache:
    """The world's cache."""
    return VectorCache(home.folder("cache") / "vectors.db", micros_of(world.precompute.life))


def remember(tables: "Tables", days: Sequence[str]) -> dict[str, int]:
    """Let published rows of `fm_outputs` be remembered; doing it again changes nothing.

    Returns:
        Generation -> rows given.
    """
    rows = tables.read("fm_outputs", days).where("remembered and user_id is not null")
    found = rows.select("fm_generation", "user_id", "ds", "request_ts", "impression_id", "vector").toArrow()
    counts = {}
    cache, keep = cache_of(tables.world, tables.home), tables.world.transfer.memory_length
    with tables.home.writing(f"remembering {days[0]}..{days[-1]}"):
        for generation, part in _by_generation(found):
            columns = [part["user_id"], part["ds"], _micros(part["request_ts"]), part["impression_id"]]
            cache.remember(generation, zip(*(c.to_pylist() for c in columns), _vectors(part), strict=True), keep)
            counts[generation] = len(part)
    return counts


def publish_runs(tables: "Tables", days: Sequence[str]) -> dict[str, int]:
    """Let the published runs of `solaris_vectors` after the given days be looked up; an older one changes nothing.

    Returns:
        Generation -> runs that became the newest one.
    """
    counts: dict[str, int] = {}
    cache = cache_of(tables.world, tables.home)
    with tables.home.writing(f"publishing vectors of {days[0]}..{days[-1]}"):
        # a run keeps its predecessor for requests stamped before it; older ones nobody can ask for
        for ds in days[-2:]:
            found = tables.read("solaris_vectors", [ds]).toArrow()
            for generation, part in _by_generation(found):
                columns = [part[name].to_pylist() for name in ("surface", "user_id", "ad_id")]
                run_us = _micros(part["run_ts"])[0].as_py()
                done = cache.publish_run(generation, run_us, zip(*columns, _vectors(part), strict=True))
                counts[generation] = counts.get(generation, 0) + int(done)
    return counts


def _by_generation(rows: "pa.Table") -> Iterator[tuple[str, "pa.Table"]]:
    import pyarrow.compute as pc

    for name in sorted(pc.unique(rows["fm_generation"]).to_pylist()):
        yield name, rows.filter(pc.equal(rows["fm_generation"], name))


def _micros(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    import pyarrow as pa

    return column.cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.int64())


def _vectors(rows: "pa.Table") -> Any:
    import numpy as np
    import pyarrow.compute as pc

    flat = pc.list_flatten(rows["vector"]).to_numpy()
    return np.asarray(flat, dtype=np.float32).reshape(len(rows), -1)
