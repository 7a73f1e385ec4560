"""A memory holds strictly earlier days of its own user, cut to the newest; the same however files are ordered."""

import numpy as np
import pytest

from features.transform.transfer import MemoryStore, Precomputed, build_transfer

DAY_US = 86_400_000_000


def stored(rng: np.random.Generator, count: int = 300) -> dict[str, np.ndarray]:
    day = rng.integers(0, 10, count)
    return {
        "user_id": rng.integers(0, 9, count),
        "day": day,
        # coarse, so that there are ties
        "request_us": day * DAY_US + rng.integers(0, 5, count) * 1_000_000,
        "impression_id": rng.permutation(count) - 100,
        "vectors": rng.normal(size=(count, 3)).astype(np.float32),
    }


@pytest.mark.parametrize("seed", range(3))
def test_it_equals_a_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, length = stored(rng), 4
    order = rng.permutation(300)
    store = MemoryStore.from_arrays(**{name: values[order] for name, values in rows.items()})
    who, missing, day = rng.integers(0, 12, 80), rng.random(80) < 0.1, rng.integers(0, 11, 80)
    request_us = day * DAY_US + rng.integers(0, DAY_US, 80)
    columns = {"user_id": (who, missing), "request_ts": request_us}
    got = build_transfer(store, columns, day, length, Precomputed.none(80, 3))
    ends = np.cumsum(got.memory_lengths.numpy())
    for example in range(80):
        seen = [e for e in range(300) if rows["user_id"][e] == who[example] and rows["day"][e] < day[example]]
        seen = sorted(seen, key=lambda e: tuple(int(rows[name][e]) for name in ("day", "request_us", "impression_id")))
        seen = [] if missing[example] else seen[-length:]
        row = int(got.memory_row[example])
        part = slice(int(ends[row] - got.memory_lengths[row]), int(ends[row]))
        np.testing.assert_array_equal(got.memory[part].numpy(), rows["vectors"][seen])
        age = (request_us[example] - rows["request_us"][seen]) / 1e6
        np.testing.assert_allclose(got.memory_age[part].numpy(), age, rtol=1e-6)
    assert (got.memory_age > 0).all()


def test_the_day_itself_is_never_remembered() -> None:
    one = np.array([7])
    store = MemoryStore.from_arrays(one, np.array([5]), np.array([5 * DAY_US]), one, np.ones((1, 2), np.float32))
    columns = {"user_id": np.array([7, 7]), "request_ts": np.array([5 * DAY_US + 1, 6 * DAY_US])}
    got = build_transfer(store, columns, np.array([5, 6]), 3, Precomputed.none(2, 2))
    assert got.memory_lengths[got.memory_row].tolist() == [0, 1]


def test_nobody_remembered() -> None:
    columns = {"user_id": np.array([1]), "request_ts": np.array([5])}
    got = build_transfer(MemoryStore.empty(2), columns, np.array([3]), 3, Precomputed.none(1, 2), tasks=2)
    assert got.memory.shape == (0, 2)
    assert got.teacher.shape == (1, 2)
    assert not got.taught.any()
