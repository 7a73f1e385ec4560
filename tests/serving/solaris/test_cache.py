"""The cache answers from one run of one generation, under writers, crashes and many readers."""

import multiprocessing
import os
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import GemlineError
from serving.solaris.cache import CacheError, Found, VectorCache

LIFE = 1_000
G, H = "gen-000000000000", "gen-111111111111"
Row = tuple[str, int, int | None, np.ndarray]


def vector(value: float, width: int = 3) -> np.ndarray:
    return np.full(width, value, dtype=np.float32)


@pytest.fixture
def cache(tmp_path: Path) -> VectorCache:
    return VectorCache(tmp_path / "vectors.db", LIFE)


def sources(found: list[Found]) -> list[str]:
    return [entry.source for entry in found]


def value(found: Found) -> float:
    assert found.vector is not None and found.vector.dtype == np.float32 and found.vector.shape == (3,)
    return float(found.vector[0])


def test_exact_then_the_users_own_then_nothing(cache: VectorCache) -> None:
    # brings torch: not at the top, which the spawned processes import too
    from features.transform.transfer import SOURCES

    rows = [("feed", 1, 10, vector(0.5)), ("feed", 1, None, vector(0.25)), ("feed", 2, 10, vector(0.75))]
    assert cache.publish_run(G, 100, rows)
    found = cache.lookup(G, "feed", 1, [10, 11, None], 100)
    assert sources(found) == ["exact", "user", "user"]
    assert [value(entry) for entry in found] == [0.5, 0.25, 0.25]
    assert sources(cache.lookup(G, "feed", 2, [10, 11, None], 100)) == ["exact", "none", "none"]
    assert cache.lookup(G, "feed", 3, [10], 100) == [Found("none", None)]
    assert cache.lookup(G, "feed", None, [10, None], 100) == [Found("none", None)] * 2
    assert sources(cache.lookup(G, "story", 1, [10], 100)) == ["none"]
    assert cache.lookup(G, "feed", 1, [], 100) == []
    assert set(sources(found)) | {"none"} == set(SOURCES)


def test_an_answer_may_be_changed_without_changing_the_cache(cache: VectorCache) -> None:
    cache.publish_run(G, 100, [("feed", 1, 10, vector(0.5))])
    first = cache.lookup(G, "feed", 1, [10], 100)[0].vector
    assert first is not None
    first[:] = 9
    assert value(cache.lookup(G, "feed", 1, [10], 100)[0]) == 0.5


def test_every_int64_is_an_id(cache: VectorCache) -> None:
    ids = [0, -1, 2**53 + 1, 2**53, 2**63 - 1, -(2**63)]
    # numpy's integers too: sqlite3 would store them as bytes
    rows: list[Row] = [
        ("feed", np.int64(user), np.int64(ad), vector(u * 10 + a))
        for u, user in enumerate(ids)
        for a, ad in enumerate(ids)
    ]  # type: ignore[misc]
    rows += [("feed", user, None, vector(-1)) for user in ids]
    cache.publish_run(G, 0, rows)
    for u, user in enumerate(ids):
        found = cache.lookup(G, "feed", user, np.array(ids), 0)  # type: ignore[arg-type]
        assert [value(entry) for entry in found] == [u * 10 + a for a in range(len(ids))]
        assert set(sources(found)) == {"exact"}
        assert sources(cache.lookup(G, "feed", user, [1], 0)) == ["user"]
    with pytest.raises(TypeError):
        cache.lookup(G, "feed", 1.0, [1], 0)  # type: ignore[arg-type]


def test_a_run_holds_from_its_instant_until_its_life_is_over_to_the_microsecond(cache: VectorCache) -> None:
    cache.publish_run(G, 5_000, [("feed", 1, 10, vector(1))])
    asked = {us: sources(cache.lookup(G, "feed", 1, [10], us))[0] for us in (4_999, 5_000, 5_999, 6_000)}
    assert asked == {4_999: "none", 5_000: "exact", 5_999: "exact", 6_000: "none"}


def test_a_request_gets_the_newest_run_not_younger_than_itself(cache: VectorCache) -> None:
    cache.publish_run(G, 100, [("feed", 1, 10, vector(1)), ("feed", 1, 11, vector(1))])
    cache.publish_run(G, 200, [("feed", 1, 10, vector(2))])
    assert [value(cache.lookup(G, "feed", 1, [10], us)[0]) for us in (100, 199, 200, 1_199)] == [1, 1, 2, 2]
    # what only the older run had is never taken from it
    assert sources(cache.lookup(G, "feed", 1, [11], 199)) == ["exact"]
    assert sources(cache.lookup(G, "feed", 1, [11], 200)) == ["none"]
    # the third pushes the first out
    cache.publish_run(G, 300, [("feed", 1, 10, vector(3))])
    assert sources(cache.lookup(G, "feed", 1, [10], 199)) == ["none"]
    assert value(cache.lookup(G, "feed", 1, [10], 299)[0]) == 2
    assert cache.generations() == {G: 300}


def test_an_older_run_and_an_empty_one_change_nothing(cache: VectorCache) -> None:
    assert cache.publish_run(G, 200, [("feed", 1, 10, vector(2))])
    assert not cache.publish_run(G, 100, [("feed", 1, 10, vector(1))])
    assert not cache.publish_run(G, 300, [])
    assert not cache.publish_run(H, 300, [])
    assert cache.generations() == {G: 200}
    assert sources(cache.lookup(G, "feed", 1, [10], 150)) == ["none"]
    assert value(cache.lookup(G, "feed", 1, [10], 300)[0]) == 2


def test_the_same_run_again_replaces_itself_whole(cache: VectorCache) -> None:
    cache.publish_run(G, 200, [("feed", 1, 10, vector(1)), ("feed", 1, None, vector(1))])
    assert cache.publish_run(G, 200, [("feed", 1, 11, vector(2))])
    assert sources(cache.lookup(G, "feed", 1, [10, 11], 200)) == ["none", "exact"]


def test_a_held_run_is_replaced_also_when_it_is_not_the_newest(cache: VectorCache) -> None:
    """A restated day leaves nothing of what it said before; a day that nobody can ask for changes nothing."""
    for run_us in (200, 300):
        cache.publish_run(G, run_us, [("feed", 1, 10, vector(run_us)), ("feed", 1, 11, vector(run_us))])
    assert cache.publish_run(G, 200, [("feed", 1, 10, vector(2))])
    assert sources(cache.lookup(G, "feed", 1, [10, 11], 250)) == ["exact", "none"]
    assert value(cache.lookup(G, "feed", 1, [10], 250)[0]) == 2
    assert value(cache.lookup(G, "feed", 1, [10], 300)[0]) == 300
    for unknown in (100, 250):
        assert not cache.publish_run(G, unknown, [("feed", 1, 10, vector(9))])
    # what is restated as nothing is gone
    assert not cache.publish_run(G, 300, [])
    assert cache.generations() == {G: 200}
    assert value(cache.lookup(G, "feed", 1, [10], 300)[0]) == 2


def test_generations_never_mix(cache: VectorCache) -> None:
    cache.publish_run(G, 100, [("feed", 1, 10, vector(1)), ("feed", 1, None, vector(1))])
    cache.publish_run(H, 50, [("feed", 1, 11, vector(2, width=5))])
    assert sources(cache.lookup(H, "feed", 1, [10, 11], 100)) == ["none", "exact"]
    assert sources(cache.lookup(G, "feed", 1, [10, 11], 100)) == ["exact", "user"]
    cache.remember(G, [(1, "2024-03-08", 1, 7, vector(1))], keep=5)
    assert len(cache.memory(H, 1)[0]) == 0
    # an old generation's newer runs push nothing of another's out
    for run_us in (200, 300, 400):
        cache.publish_run(G, run_us, [("feed", 1, 10, vector(1))])
    assert sources(cache.lookup(H, "feed", 1, [11], 100)) == ["exact"]
    cache.forget(G)
    cache.forget("gen-unknown")
    assert cache.generations() == {H: 50}
    assert sources(cache.lookup(G, "feed", 1, [10], 400)) == ["none"] and len(cache.memory(G, 1)[0]) == 0
    # forgotten whole: its width too
    assert cache.publish_run(G, 1, [("feed", 1, 10, vector(1, width=8))])


def unlucky(rows: list[Row]) -> Iterator[Row]:
    yield from rows
    raise RuntimeError("the device is gone")


def test_a_publish_that_breaks_off_leaves_what_was_there(cache: VectorCache) -> None:
    cache.publish_run(G, 100, [("feed", 1, 10, vector(1)), ("feed", 1, None, vector(1))])
    for generation, run_us in ((G, 200), (G, 100), (H, 200)):
        with pytest.raises(RuntimeError, match="device is gone"):
            cache.publish_run(generation, run_us, unlucky([("feed", 1, 10, vector(9))]))
    assert cache.generations() == {G: 100}
    assert [value(entry) for entry in cache.lookup(G, "feed", 1, [10, 11], 250)] == [1, 1]
    assert cache.publish_run(G, 200, [("feed", 1, 10, vector(2))])


def _dies_while_publishing(path: Path) -> None:
    def rows() -> Iterator[Row]:
        for ad in range(20_000):
            yield "feed", 1, ad, vector(9)
        os._exit(7)

    VectorCache(path, LIFE).publish_run(G, 200, rows())


def test_a_killed_writer_leaves_the_old_run(cache: VectorCache, tmp_path: Path) -> None:
    cache.publish_run(G, 100, [("feed", 1, 10, vector(1))])
    writer = multiprocessing.get_context("spawn").Process(
        target=_dies_while_publishing, args=(tmp_path / "vectors.db",)
    )
    writer.start()
    writer.join(60)
    assert writer.exitcode == 7
    assert value(cache.lookup(G, "feed", 1, [10], 250)[0]) == 1
    assert sources(cache.lookup(G, "feed", 1, [11], 250)) == ["none"]


def _opens(path: Path, barrier: "multiprocessing.synchronize.Barrier", number: int) -> None:
    barrier.wait(60)
    VectorCache(path, LIFE).publish_run(f"gen-{number}", 100, [("feed", 1, 10, vector(number))])


def test_processes_may_start_at_once(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(3)
    path = tmp_path / "vectors.db"
    writers = [spawn.Process(target=_opens, args=(path, barrier, number)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(100)
    assert [writer.exitcode for writer in writers] == [0] * 3
    cache = VectorCache(path, LIFE)
    assert cache.generations() == {f"gen-{number}": 100 for number in range(3)}
    assert value(cache.lookup("gen-2", "feed", 1, [10], 100)[0]) == 2


def test_readers_see_one_whole_run_while_the_next_is_published(cache: VectorCache) -> None:
    ads, runs, stop = list(range(40)), 25, threading.Event()
    faults: list[str] = []
    seen: set[float] = set()

    def publish(number: int) -> None:
        # odd runs know only the first half, so that a mixture shows in the sources as well
        known = ads if number % 2 == 0 else ads[:20]
        own: list[Row] = [("feed", 1, None, vector(number))]
        assert cache.publish_run(G, number, [("feed", 1, ad, vector(number)) for ad in known] + own)

    def read() -> None:
        newest = 0.0
        while not stop.is_set():
            found = cache.lookup(G, "feed", 1, [*ads, None], LIFE - 1)
            values = {value(entry) for entry in found}
            number = max(values)
            exact = 40 if number % 2 == 0 else 20
            if len(values) != 1 or sources(found).count("exact") != exact or number < newest:
                faults.append(f"{values} after {newest}: {sources(found)}")
            newest = number
            seen.add(number)

    publish(0)
    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(4)]
        try:
            for number in range(1, runs):
                publish(number)
        finally:
            stop.set()
    # a reader that raised says so here
    assert [reader.result() for reader in readers] == [None] * 4
    assert not faults, faults[:3]
    assert len(seen) > 1


def test_an_answer_is_one_snapshot_from_its_run_to_its_rows(cache: VectorCache, tmp_path: Path) -> None:
    cache.publish_run(G, 100, [("feed", 1, 10, vector(1))])
    writer = VectorCache(tmp_path / "vectors.db", LIFE)
    pushed_out: list[int] = []

    def meanwhile(statement: str) -> None:
        # the run is chosen, its rows are not read yet: two newer ones push it out
        if "FROM exact_vectors" in statement and not pushed_out:
            pushed_out.extend((200, 300))
            for run_us in pushed_out:
                assert writer.publish_run(G, run_us, [("feed", 1, 10, vector(2))])

    cache._file.connection().set_trace_callback(meanwhile)
    assert [value(entry) for entry in cache.lookup(G, "feed", 1, [10], 400)] == [1]
    assert pushed_out and [value(entry) for entry in cache.lookup(G, "feed", 1, [10], 400)] == [2]


MEMORIES = [
    (1, "2024-03-09", 5, 50, vector(0.5)),
    (1, "2024-03-08", 9, 40, vector(0.4)),
    # same instant: the impression decides; and a day wins over the instant
    (1, "2024-03-08", 9, -3, vector(-0.3)),
    (2, "2024-03-08", 1, 2**53 + 1, vector(0.2)),
]


def test_a_memory_is_ordered_and_idempotent(cache: VectorCache) -> None:
    for _ in range(2):
        cache.remember(G, MEMORIES, keep=5)
    day, request_us, impression_id, vectors = cache.memory(G, 1)
    assert day.tolist() == [738953, 738953, 738954] and request_us.tolist() == [9, 9, 5]
    assert impression_id.tolist() == [-3, 40, 50]
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, np.stack([vector(-0.3), vector(0.4), vector(0.5)]))
    assert cache.memory(G, 2)[2].tolist() == [2**53 + 1]
    cache.remember(G, [(1, "2024-03-09", 5, 50, vector(0.75))], keep=5)
    assert cache.memory(G, 1)[3][:, 0].tolist() == pytest.approx([-0.3, 0.4, 0.75])
    assert cache.generations() == {G: None}


def test_a_restated_day_leaves_no_ghost(cache: VectorCache) -> None:
    cache.remember(G, MEMORIES, keep=5)
    cache.remember(H, MEMORIES, keep=5)
    both = ["2024-03-08", "2024-03-09"]
    assert cache.remembered(G, both) == {(1, 50), (1, 40), (1, -3), (2, 2**53 + 1)}
    assert cache.remembered(G, ["2024-03-09"]) == {(1, 50)}
    cache.remember(G, [(1, "2024-03-08", 9, 41, vector(0.9))], keep=5, days=["2024-03-08"])
    assert cache.memory(G, 1)[2].tolist() == [41, 50] and cache.memory(G, 2)[2].tolist() == []
    cache.remember(G, [], keep=5, days=["2024-03-08", "2024-03-09", "2024-03-10"])
    assert cache.remembered(G, both) == set()
    assert len(cache.memory(H, 1)[0]) == 3


def test_only_the_newest_of_a_memory_are_kept(cache: VectorCache) -> None:
    cache.remember(G, MEMORIES[:3], keep=2)
    assert cache.memory(G, 1)[2].tolist() == [40, 50]
    # an older one again is pruned again; other users are not touched
    cache.remember(G, [MEMORIES[2], MEMORIES[3]], keep=2)
    assert cache.memory(G, 1)[2].tolist() == [40, 50]
    cache.remember(G, [(1, "2024-03-10", 0, 1, vector(1))], keep=1)
    assert cache.memory(G, 1)[2].tolist() == [1] and cache.memory(G, 2)[2].tolist() == [2**53 + 1]


def test_forgetting_a_user_leaves_the_others(cache: VectorCache, tmp_path: Path) -> None:
    """In all generations and runs; and what was deleted is not left on a page of the files."""
    mark = np.array([0.123, 0.456, 0.789], dtype=np.float32)
    rows = [("feed", 1, 10, mark), ("feed", 1, None, mark), ("feed", 2, 10, vector(0.75))]
    for generation in (G, H):
        cache.publish_run(generation, 100, rows)
        cache.remember(generation, [(1, "2024-03-08", 9, 50, mark), *MEMORIES], keep=9)

    def kept() -> bool:
        return any(mark.tobytes() in path.read_bytes() for path in tmp_path.glob("vectors.db*"))

    counts = {"exact_vectors": 2, "user_vectors": 2, "memories": 6}
    assert cache.forget_user(1, delete=False) == counts and kept()
    assert cache.forget_user(1, delete=True) == counts and not kept()
    assert cache.forget_user(1, delete=True) == {}
    for generation in (G, H):
        assert sources(cache.lookup(generation, "feed", 1, [10], 100)) == ["none"]
        assert sources(cache.lookup(generation, "feed", 2, [10], 100)) == ["exact"]
        assert cache.memory(generation, 1)[2].tolist() == []
        assert cache.memory(generation, 2)[2].tolist() == [2**53 + 1]


def test_nobody_has_no_memory(cache: VectorCache) -> None:
    assert [entry.shape for entry in cache.memory(G, 1)] == [(0,), (0,), (0,), (0, 0)]
    cache.remember(G, MEMORIES, keep=2)
    for user in (None, 99):
        day, request_us, impression_id, vectors = cache.memory(G, user)
        assert day.dtype == request_us.dtype == impression_id.dtype == np.int64 and not len(day)
        assert vectors.shape == (0, 3) and vectors.dtype == np.float32


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 6)), max_size=25),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_pruning_in_batches_is_pruning_at_the_end(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[int, int, int]], keep: int, batch: int
) -> None:
    cache = VectorCache(tmp_path_factory.mktemp("cache") / "v.db", LIFE)
    # an impression has one user, one day, one instant
    rows = [(0, f"2024-03-0{day + 1}", us, (day * 5 + us) * 7 + nth, vector(nth)) for day, us, nth in drawn]
    for start in range(0, len(rows), batch):
        cache.remember(G, rows[start : start + batch], keep)
    expected = sorted({row[1:4] for row in rows})[-keep:]
    assert cache.memory(G, 0)[2].tolist() == [row[2] for row in expected]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (vector(1, width=4), "4 numbers"),
        (vector(float("nan")), "not finite"),
        (np.array([1e300, 0, 0]), "not finite"),
        (np.zeros((1, 3)), "not flat"),
        (vector(1, width=0), "empty"),
    ],
)
def test_a_vector_that_does_not_fit_is_refused_and_nothing_of_its_run_stays(
    cache: VectorCache, bad: np.ndarray, why: str
) -> None:
    cache.publish_run(G, 100, [("feed", 1, 10, vector(1))])
    with pytest.raises(CacheError, match=why):
        cache.publish_run(G, 200, [("feed", 1, 10, vector(2)), ("feed", 1, 11, bad)])
    with pytest.raises(CacheError, match=why):
        cache.remember(G, [(1, "2024-03-08", 1, 1, bad)], keep=5)
    assert cache.generations() == {G: 100} and not len(cache.memory(G, 1)[0])


def test_a_key_given_twice_is_refused(cache: VectorCache) -> None:
    with pytest.raises(CacheError, match="twice"):
        cache.publish_run(G, 100, [("feed", 1, None, vector(1)), ("feed", 1, None, vector(2))])
    assert cache.generations() == {}


def test_other_files_are_refused_and_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_text("no database at all, but long enough to look at" * 20)
    with pytest.raises(GemlineError, match="is no vector cache"):
        VectorCache(text, LIFE)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE notes (text)")
    connection.close()
    before = other.read_bytes()
    with pytest.raises(CacheError, match="another program's database"):
        VectorCache(other, LIFE)
    assert other.read_bytes() == before
    VectorCache(tmp_path / "old.db", LIFE)
    connection = sqlite3.connect(tmp_path / "old.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(CacheError, match="version 99"):
        VectorCache(tmp_path / "old.db", LIFE)


def test_a_damaged_vector_is_told_not_served(cache: VectorCache, tmp_path: Path) -> None:
    cache.publish_run(G, 100, [("feed", 1, 10, vector(1))])
    connection = sqlite3.connect(tmp_path / "vectors.db", isolation_level=None)
    connection.execute("UPDATE exact_vectors SET vector = x'0000'")
    connection.close()
    with pytest.raises(CacheError, match="damaged"):
        cache.lookup(G, "feed", 1, [10], 100)


def test_opening_waits_for_no_publish(cache: VectorCache, tmp_path: Path) -> None:
    cache.publish_run(G, 100, [("feed", 1, 10, vector(1))])

    def rows() -> Iterator[Row]:
        yield "feed", 1, 10, vector(2)
        other = VectorCache(tmp_path / "vectors.db", LIFE)
        assert value(other.lookup(G, "feed", 1, [10], 250)[0]) == 1

    assert cache.publish_run(G, 200, rows())
    assert value(cache.lookup(G, "feed", 1, [10], 250)[0]) == 2
