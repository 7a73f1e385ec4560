"""The mapped history store: whatever was there before, it equals a store read from all days' files."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.days import shift
from features.transform.histories import HistoryCut, HistoryStore
from tests.training.conftest import DAYS, history_of, make_plan, write
from training.mapped_histories import KEPT, MappedHistories, cache_of, carried_on, histories
from training.parquet import read_histories
from training.plan import DayFiles, Plan
from training.reader import Reader, Share

FIELDS = ["ad_id", "brand"]


@pytest.fixture
def days(tmp_path: Path) -> dict[str, DayFiles]:
    """Four days of `user_history` in a home."""
    table = tmp_path / "world" / "tables" / "user_history"
    return {day: write(table / f"ds={day}" / "part.parquet", history_of(day)) for day in DAYS}


def first(days: dict[str, DayFiles], count: int) -> dict[str, DayFiles]:
    return {day: days[day] for day in DAYS[:count]}


def same(one: HistoryStore, other: HistoryStore) -> None:
    for name in ("user_ids", "offsets", "event_us", "day", "late", "type"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert list(one.fields) == list(other.fields)
    for name, column in one.fields.items():
        np.testing.assert_array_equal(column.values, other.fields[name].values)
        np.testing.assert_array_equal(column.missing, other.fields[name].missing)


def kept(days: dict[str, DayFiles]) -> list[Path]:
    root = cache_of(days)
    assert root is not None
    return sorted(path.parent for path in root.glob("*/manifest.json"))


def test_the_store_is_mapped_and_equals_one_in_memory(days: dict[str, DayFiles]) -> None:
    made = histories(days, FIELDS)
    assert isinstance(made, MappedHistories) and not made.event_us.flags.writeable
    same(made, read_histories(days, FIELDS))
    again = histories(days, FIELDS)
    assert isinstance(again, MappedHistories) and again.folder == made.folder
    same(again, made)


def test_a_day_is_appended_without_reading_the_others_again(days: dict[str, DayFiles]) -> None:
    histories(first(days, 3), FIELDS)
    for day in DAYS[:3]:
        Path(days[day].paths[0]).rename(days[day].paths[0] + ".away")
    made = histories(days, FIELDS)
    for day in DAYS[:3]:
        Path(days[day].paths[0] + ".away").rename(days[day].paths[0])
    same(made, read_histories(days, FIELDS))


def test_a_restated_day_takes_the_place_of_what_it_was(days: dict[str, DayFiles]) -> None:
    before = histories(days, FIELDS)
    path = Path(days[DAYS[1]].paths[0])
    pq.write_table(pq.read_table(path).slice(0, 7), path)
    restated = {**days, DAYS[1]: DayFiles("another hash", (str(path),))}
    after = histories(restated, FIELDS)
    same(after, read_histories(restated, FIELDS))
    assert len(after.event_us) < len(before.event_us)
    # the store of the days as they were is still there, for whoever is pinned to them
    same(histories(days, FIELDS), before)


def test_an_earlier_day_gets_a_store_without_the_later_ones(days: dict[str, DayFiles]) -> None:
    histories(days, FIELDS)
    same(histories(first(days, 3), FIELDS), read_histories(first(days, 3), FIELDS))


def test_other_fields_make_another_store(days: dict[str, DayFiles]) -> None:
    histories(days, FIELDS)
    same(histories(days, ["brand"]), read_histories(days, ["brand"]))
    assert len(kept(days)) == 2


def test_a_damaged_store_is_built_again(days: dict[str, DayFiles]) -> None:
    made = histories(days, FIELDS)
    assert isinstance(made, MappedHistories)
    (made.folder / "event_us.npy").write_bytes(b"cut short")
    (made.folder / "field-1.npy").unlink()
    same(histories(days, FIELDS), read_histories(days, FIELDS))


def test_few_stores_stay(days: dict[str, DayFiles]) -> None:
    for number in range(KEPT + 3):
        histories({**days, DAYS[-1]: replace(days[DAYS[-1]], content_hash=f"hash {number}")}, FIELDS)
    assert len(kept(days)) == KEPT
    newest = [json.loads((folder / "manifest.json").read_text())["days"][DAYS[-1]] for folder in kept(days)]
    assert f"hash {KEPT + 2}" in newest and "hash 0" not in newest


def test_files_outside_of_a_home_are_read_into_memory(tmp_path: Path, plan: Plan) -> None:
    assert cache_of(plan.user_history) is None
    assert not isinstance(histories(plan.user_history, FIELDS), MappedHistories)
    assert not isinstance(histories({DAYS[0]: DayFiles("closed")}, FIELDS), MappedHistories)
    nobody = {day: DayFiles(f"closed {day}") for day in DAYS}
    assert len(histories(nobody, FIELDS).user_ids) == 0


def test_a_reader_gives_the_same_batches_at_every_length(tmp_path: Path, days: dict[str, DayFiles]) -> None:
    plan = make_plan(tmp_path / "plan")
    mapped = replace(plan, user_history=days)
    own, other = Reader(mapped), Reader(plan)
    assert isinstance(own.histories, MappedHistories) and not isinstance(other.histories, MappedHistories)
    for length in (1, 7, 10_000):
        cut = HistoryCut(length, {"click": 1})
        for one, two in zip(
            own.batches(own.examples(DAYS[2]), plan.schema, 64, Share(), cut),
            other.batches(other.examples(DAYS[2]), plan.schema, 64, Share(), cut),
            strict=True,
        ):
            for name, part in one[1].history.items():
                assert part.dtype == two[1].history[name].dtype
                assert (part == two[1].history[name]).all()
            assert (one[1].history_age == two[1].history_age).all()
    # hashed ids lie beside the store, and the next process maps them
    assert isinstance(own.histories, MappedHistories)
    assert len(list(own.histories.folder.glob("rows-*.npy"))) == len(plan.schema.history.fields)


def test_deleting_the_cache_changes_nothing(tmp_path: Path, days: dict[str, DayFiles]) -> None:
    """Also for a reader that has mapped its store and not hashed its ids yet."""
    schema, made = make_plan(tmp_path / "plan").schema, histories(days, FIELDS)
    shutil.rmtree(cache_of(days) or Path("nowhere"))
    in_memory = read_histories(days, FIELDS)
    for name, rows in in_memory.encoded(schema).items():
        np.testing.assert_array_equal(made.encoded(schema)[name], rows)
    same(histories(days, FIELDS), made)  # and what was mapped still reads


EVENT = st.tuples(
    st.integers(0, 3),  # user
    st.integers(0, 4),  # day of arrival
    st.integers(0, 5),  # stamp: many are equal
    st.integers(0, 1),  # type
    st.one_of(st.none(), st.integers(-2, 2)),
)


def store_of(events: list[tuple[int, int, int, int, int | None]]) -> HistoryStore:
    whole = np.array([event[:4] for event in events], dtype=np.int64).reshape(-1, 4)
    user, day, at, kind = whole.T
    missing = np.array([event[4] is None for event in events], dtype=bool)
    values = np.array([event[4] or 0 for event in events], dtype=np.int64)
    return HistoryStore.from_arrays(user, day, at, kind, {"ad_id": (values, missing)})


@settings(max_examples=300, deadline=None)
@given(st.lists(EVENT, max_size=40), st.sets(st.integers(0, 4)), st.sets(st.integers(0, 4)))
def test_carrying_on_equals_sorting_everything(
    events: list[tuple[int, int, int, int, int | None]], before: set[int], after: set[int]
) -> None:
    base = store_of([event for event in events if event[1] in before])
    new = store_of([event for event in events if event[1] in after - before])
    made = carried_on(base, np.array(sorted(before - after), dtype=np.int64), new)
    same(made, store_of([event for event in events if event[1] in after]))


def test_days_are_contiguous_or_not(days: dict[str, DayFiles]) -> None:
    """A history may begin anywhere: what is shared counts, not what is first."""
    histories(days, FIELDS)
    later = {shift(DAYS[0], -1): DayFiles("closed before"), **{day: days[day] for day in DAYS[1:]}}
    same(histories(later, FIELDS), read_histories(later, FIELDS))
