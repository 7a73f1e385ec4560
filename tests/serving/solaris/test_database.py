"""The file under the cache may go away, come back, or be out of reach while it is used."""

import multiprocessing
import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from serving.solaris.cache import CacheError, VectorCache
from serving.solaris.database import BESIDE, Database

LIFE = 1_000
G = "gen-000000000000"
THREADS = 4


def vector(value: float) -> np.ndarray:
    return np.full(3, value, dtype=np.float32)


def fill(cache: VectorCache, value: float) -> None:
    rows = [("feed", 1, 10, vector(value)), ("feed", 1, None, vector(value))]
    rows += [("feed", user, 10, vector(value)) for user in range(2, 500)]
    assert cache.publish_run(G, 100, rows)
    cache.remember(G, [(1, "2024-03-08", 5, 7, vector(value))], keep=5)


def answers(cache: VectorCache) -> tuple[list[str], int]:
    found = cache.lookup(G, "feed", 1, [10, 11], 100)
    return [f"{one.source} {one.vector[0]}" if one.vector is not None else one.source for one in found], len(
        cache.memory(G, 1)[0]
    )


def delete(path: Path) -> None:
    path.unlink()


def delete_all(path: Path) -> None:
    for ending in ("", *BESIDE):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def delete_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def fill_from_outside(path: Path) -> None:
    fill(VectorCache(path, LIFE), 0.75)


@pytest.mark.parametrize("gone", [delete, delete_all, delete_folder])
@pytest.mark.parametrize("outside", [False, True])
def test_a_deleted_file_is_made_again_for_every_thread(
    tmp_path: Path, gone: Callable[[Path], None], outside: bool
) -> None:
    """Threads that have asked before and threads that have not see the same new file."""
    path = tmp_path / "cache" / "vectors.db"
    cache = VectorCache(path, LIFE)
    fill(cache, 0.5)
    barrier = threading.Barrier(THREADS, timeout=60)

    def ask(_: int) -> tuple[list[str], int]:
        barrier.wait()  # so that each thread of the pool asks once
        return answers(cache)

    with ThreadPoolExecutor(THREADS) as warm:
        assert list(warm.map(ask, range(THREADS))) == [(["exact 0.5", "user 0.5"], 1)] * THREADS
        gone(path)
        assert list(warm.map(ask, range(THREADS))) == [(["none", "none"], 0)] * THREADS
        gone(path)
        if outside:
            filler = multiprocessing.get_context("spawn").Process(target=fill_from_outside, args=(path,))
            filler.start()
            filler.join(60)
            assert filler.exitcode == 0
        else:
            fill(cache, 0.75)
        expected = [(["exact 0.75", "user 0.75"], 1)] * THREADS
        assert list(warm.map(ask, range(THREADS))) == expected
        with ThreadPoolExecutor(THREADS) as fresh:
            assert list(fresh.map(ask, range(THREADS))) == expected
    again = VectorCache(path, LIFE)
    assert answers(again) == expected[0]


def test_a_file_put_in_place_of_another_is_followed(tmp_path: Path) -> None:
    cache, other = VectorCache(tmp_path / "vectors.db", LIFE), VectorCache(tmp_path / "other.db", LIFE)
    fill(cache, 0.5)
    fill(other, 0.25)
    other._file.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other._file.connection().close()
    delete_all(tmp_path / "vectors.db")
    (tmp_path / "other.db").rename(tmp_path / "vectors.db")
    assert answers(cache) == (["exact 0.25", "user 0.25"], 1)


def test_a_run_written_into_a_deleted_file_is_told(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path / "vectors.db", LIFE)

    def rows():  # type: ignore[no-untyped-def]
        yield "feed", 1, 10, vector(1)
        delete(tmp_path / "vectors.db")

    with pytest.raises(CacheError, match="was deleted while it was written; publish again"):
        cache.publish_run(G, 100, rows())
    assert cache.publish_run(G, 100, [("feed", 1, 10, vector(1))])
    assert answers(cache)[0] == ["exact 1.0", "none"]


@pytest.mark.parametrize("fault", ["a file in its place", "may not be written"])
def test_a_folder_out_of_reach_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    folder = tmp_path / "cache"
    if fault == "may not be written":
        # as root, who runs some tests, one may write everywhere
        def refused(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("serving.solaris.database.FileLock.acquire", refused)
    else:
        folder.write_text("no folder")
    with pytest.raises(CacheError, match=r"vectors\.db cannot be opened \(.+\); its folder must be writable"):
        VectorCache(folder / "vectors.db", LIFE)


def test_a_fault_of_the_block_stays_what_it_is(tmp_path: Path) -> None:
    database = Database(tmp_path / "some.db", {"t": "a INTEGER NOT NULL, PRIMARY KEY (a)"})
    with pytest.raises(FileNotFoundError), database.writing() as connection:
        connection.execute("INSERT INTO t VALUES (1)")
        os.stat(tmp_path / "not there")  # noqa: PTH116
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
