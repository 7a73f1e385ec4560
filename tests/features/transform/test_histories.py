"""History slices against a loop over every event: ties, late arrivals, unknown and missing users."""

from dataclasses import replace

import numpy as np
import pytest

from features.transform.hashing import rows_of, string_id, table_salt
from features.transform.histories import Histories, HistoryCut, HistoryStore, expand, first_not_below, slice_histories
from features.transform.schema import Categorical, FeatureSchema, History, HistoryField, TaskSpec


@pytest.fixture
def schema() -> FeatureSchema:
    return FeatureSchema(
        categorical=(Categorical("ad_id", "ad"),),
        dense=(),
        history=History((HistoryField("ad_id", "ad", "ad_id"), HistoryField("store", "store")), 5),
        tables={"ad": 1_000_000, "store": 50},
        surfaces=("feed",),
        event_types=("click", "buy"),
        tasks=(TaskSpec("click", True),),
    )


def of_example(histories: Histories, index: int) -> slice:
    """Events of one example's slice."""
    row = histories.row[index]
    end = int(np.cumsum(histories.lengths)[row])
    return slice(end - int(histories.lengths[row]), end)


@pytest.mark.parametrize("late", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_slices_equal_a_loop(schema: FeatureSchema, seed: int, late: float) -> None:
    rng = np.random.default_rng(seed)
    count, day_us = 400, 100
    user, stamp = rng.integers(0, 12, count), rng.integers(0, 10 * day_us, count) // 7 * 7  # many ties
    day = stamp // day_us + np.where(rng.random(count) < late, rng.integers(1, 4, count), 0)
    ad = np.arange(count)
    kind = rng.choice([string_id("click"), string_id("buy"), 77], count)
    store = HistoryStore.from_arrays(user, day, stamp, kind, {"ad_id": ad})
    who, missing = rng.integers(0, 15, 200), rng.random(200) < 0.1
    request = rng.integers(0, 11 * day_us, 200) // 7 * 7
    on = request // day_us
    got = slice_histories(schema, store, (who, missing), on, request)
    ad_rows = rows_of(ad, np.zeros(count, dtype=bool), 1_000_000, table_salt("ad"))
    for i in range(200):
        seen = [e for e in range(count) if user[e] == who[i] and day[e] < on[i] and stamp[e] < request[i]]
        seen = sorted(seen, key=lambda e: (stamp[e], kind[e], ad[e], day[e]))[-5:] if not missing[i] else []
        part = of_example(got, i)
        assert got.fields["ad_id"][part].tolist() == ad_rows[seen].tolist()
        assert got.age_us[part].tolist() == (request[i] - stamp[seen]).tolist()
        kinds = {string_id("click"): 1, string_id("buy"): 2, 77: 0}
        assert got.type[part].tolist() == [kinds[int(k)] for k in kind[seen]]
    assert (got.age_us > 0).all()
    assert not got.fields["store"].any()  # a field that the store lacks is missing


@pytest.mark.parametrize("late", [False, True])
def test_as_of_request_sees_the_day_itself_up_to_the_request(schema: FeatureSchema, late: bool) -> None:
    """B08, B09: strictly before the request, and nothing that arrives on a later day."""
    day = np.array([3, 3, 3, 3, 4, 2 + 3 * late])
    stamp = np.array([310, 320, 320, 330, 315, 250])
    same = np.ones(6, dtype=np.int64)
    store = HistoryStore.from_arrays(same, day, stamp, same, {"ad_id": np.arange(6)})
    asked = (np.array([1, 1, 1]), np.array([3, 3, 4]), np.array([320, 321, 400]))
    ages = {}
    for as_of in ("day_start", "request"):
        own = replace(schema, history=replace(schema.history, as_of=as_of))
        got = slice_histories(own, store, *asked)
        ages[as_of] = [got.age_us[of_example(got, place)].tolist() for place in range(3)]
    known = [] if late else [250]
    assert ages["day_start"] == [[320 - at for at in known], [321 - at for at in known], [
        400 - at for at in [*known, 310, 320, 320, 330]
    ]]  # fmt: skip
    assert ages["request"][0] == [320 - at for at in [*known, 310]]
    assert ages["request"][1] == [321 - at for at in [*known, 310, 320, 320]]
    assert ages["request"][2] == [400 - at for at in [*known, 310, 315, 320, 320, 330]][-5:]


def test_candidates_of_a_request_share_one_slice(schema: FeatureSchema) -> None:
    store = HistoryStore.from_arrays(np.array([1, 2]), np.zeros(2), np.zeros(2), np.zeros(2), {"ad_id": np.arange(2)})
    got = slice_histories(schema, store, np.array([1, 2, 1, 1, 9]), np.ones(5), np.array([5, 5, 5, 6, 5]))
    assert len(got.lengths) == 4
    assert got.row[0] == got.row[2] != got.row[3]


def test_requests_without_any_event_are_not_thrown_together(schema: FeatureSchema) -> None:
    store = HistoryStore.from_arrays(np.array([1]), np.zeros(1), np.zeros(1), np.zeros(1), {"ad_id": np.arange(1)})
    users, missing = np.array([8, 9, 9, 0, 0]), np.array([False, False, False, True, True])
    got = slice_histories(schema, store, (users, missing), np.ones(5), np.array([5, 5, 6, 5, 6]))
    assert len(got.lengths) == 5 and not got.lengths.any()
    again = slice_histories(schema, store, (users[[1, 1]], missing[[1, 1]]), np.ones(2), np.array([5, 5]))
    assert again.row.tolist() == [0, 0]


def test_order_of_files_does_not_matter(schema: FeatureSchema) -> None:
    rng = np.random.default_rng(0)
    user, stamp, ad = rng.integers(0, 3, 90), rng.integers(0, 9, 90), rng.integers(0, 99, 90)
    request = (np.arange(3), np.ones(3), np.full(3, 100))
    results = []
    for order in (np.arange(90), rng.permutation(90)):
        store = HistoryStore.from_arrays(user[order], np.zeros(90), stamp[order], np.zeros(90), {"ad_id": ad[order]})
        results.append(slice_histories(schema, store, *request))
    np.testing.assert_array_equal(results[0].fields["ad_id"], results[1].fields["ad_id"])


def test_an_empty_store_and_no_examples(schema: FeatureSchema) -> None:
    none = np.zeros(0, dtype=np.int64)
    store = HistoryStore.from_arrays(none, none, none, none, {"ad_id": none})
    got = slice_histories(schema, store, np.array([1, 2]), np.ones(2), np.ones(2))
    assert got.lengths.sum() == 0 and len(got.row) == 2
    full = HistoryStore.from_arrays(*[np.ones(1, dtype=np.int64)] * 4, {"ad_id": np.ones(1)})
    assert len(slice_histories(schema, full, none, none, none).row) == 0


def test_length_is_an_argument(schema: FeatureSchema) -> None:
    one = np.ones(30, dtype=np.int64)
    store = HistoryStore.from_arrays(one, one, np.arange(30), one, {"ad_id": np.arange(30)})
    args = (schema, store, np.array([1]), np.array([2]), np.array([100]))
    assert slice_histories(*args).lengths.tolist() == [5]
    long, short = slice_histories(*args, cut=HistoryCut(20)), slice_histories(*args, cut=HistoryCut(3))
    assert long.age_us[-3:].tolist() == short.age_us.tolist() == [73, 72, 71]


@pytest.mark.parametrize("late", [False, True])
def test_quotas_keep_a_types_newest_events_whatever_else_fills_the_length(schema: FeatureSchema, late: bool) -> None:
    rng = np.random.default_rng(3)
    names = np.array(["view", "click", "buy"])
    user, kind = rng.integers(0, 20, 900), rng.choice(3, 900, p=[0.9, 0.07, 0.03])
    stamp = np.sort(rng.integers(0, 1_000_000, 900))
    day = np.where(late & (rng.random(900) < 0.2), stamp // 100_000 + 1, stamp // 100_000)
    ids = np.array([string_id(name) for name in names])[kind]
    store = HistoryStore.from_arrays(user, day, stamp, ids, {"ad_id": np.arange(900)})
    cut = HistoryCut(12, {"buy": 3, "click": 4})
    got = slice_histories(schema, store, np.arange(20), np.full(20, 7), np.full(20, 900_000), cut)
    start = 0
    for asked, length in enumerate(got.lengths):
        known = [e for e in range(900) if user[e] == asked and day[e] < 7 and stamp[e] < 900_000]
        reserved = [e for n, q in ((2, 3), (1, 4)) for e in [e for e in known if kind[e] == n][-q:]]
        rest = [e for e in known if e not in reserved][-(12 - len(reserved)) :]
        expected = sorted(reserved + rest, key=lambda e: stamp[e])
        ages = (900_000 - stamp[expected]).tolist()
        assert got.age_us[start : start + length].tolist() == ages
        start += length
    plain = slice_histories(schema, store, np.arange(20), np.full(20, 7), np.full(20, 900_000), HistoryCut(12))
    assert plain.lengths.tolist() == got.lengths.tolist() and plain.age_us.tolist() != got.age_us.tolist()


def test_search_and_expand_equal_numpy() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([np.sort(rng.integers(0, 20, n)) for n in (0, 1, 7, 30)])
    low, high = np.array([0, 0, 1, 8]), np.array([0, 1, 8, 38])
    for target in range(-1, 22):
        expected = [a + np.searchsorted(values[a:b], target) for a, b in zip(low, high, strict=True)]
        assert first_not_below(values, low, high, np.full(4, target)).tolist() == expected
    assert expand(np.array([5, 9, 0]), np.array([2, 0, 3])).tolist() == [5, 6, 0, 1, 2]
