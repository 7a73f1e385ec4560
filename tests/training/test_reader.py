"""The reader: every pair once, in an order of seed and day alone, from nothing but the plan's files."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from features.errors import GemlineError
from features.transform.hashing import rows_of, table_salt
from features.transform.histories import HistoryCut
from training.plan import DayFiles, Plan
from training.reader import Reader, ReaderError, Share


def rewrite(plan: Plan, table: str, day: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the file of a day in place."""
    path = plan.files(table)[day].paths[0]
    pq.write_table(change(pq.read_table(path)), path)


def pairs_of(rows: Any, tasks: int) -> list[tuple[int, int, int, float]]:
    return sorted(
        (int(rows.day[row]), int(rows.impression_id[row]), task, float(rows.labels.label[row, task]))
        for row in range(len(rows))
        for task in range(tasks)
        if rows.labels.mask[row, task] > 0
    )


def test_each_pair_is_read_exactly_once_with_its_label(plan: Plan) -> None:
    day = plan.walk[1]
    pairs = pairs_of(Reader(plan).labelled(day), 2)
    table = pq.read_table(plan.labels[day].paths[0]).to_pylist()
    task = {"click": 0, "buy": 1}
    expected = sorted(
        (date.fromisoformat(row["ds"]).toordinal(), row["impression_id"], task[row["task"]], row["label"])
        for row in table
    )
    assert pairs == expected
    assert {row["ds"] for row in table} == {plan.walk[0], day}


def test_order_is_a_function_of_seed_and_day(plan: Plan) -> None:
    day = plan.walk[0]
    first = Reader(plan).labelled(day).impression_id
    np.testing.assert_array_equal(first, Reader(plan).labelled(day).impression_id)
    other = Reader(replace(plan, seed=8)).labelled(day).impression_id
    assert (first != other).any()
    np.testing.assert_array_equal(np.sort(first), np.sort(other))


def test_order_does_not_depend_on_files(plan: Plan) -> None:
    day = plan.walk[0]
    before = Reader(plan).labelled(day)
    rewrite(plan, "examples", day, lambda table: table.take(np.arange(len(table))[::-1]))
    rewrite(plan, "labels", day, lambda table: table.take(np.arange(len(table))[::-1]))
    after = Reader(plan).labelled(day)
    np.testing.assert_array_equal(before.impression_id, after.impression_id)
    np.testing.assert_array_equal(before.labels.label, after.labels.label)


def together(examples: pa.Table) -> pa.Table:
    """Let every user's rows of a day be candidates of one request."""
    at = examples.schema.get_field_index("request_ts")
    return examples.set_column(at, examples.schema.field(at), pa.array([examples["request_ts"][0]] * len(examples)))


def test_training_order_shuffles_requests_and_keeps_their_candidates_together(plan: Plan) -> None:
    day = plan.walk[2]
    rewrite(plan, "examples", day, together)
    rows = Reader(plan).labelled(day)
    users = rows.columns["user_id"]
    request = list(zip(users.values, users.missing, rows.columns["request_ts"].values, strict=True))
    changes = sum(a != b for a, b in pairwise(request))
    assert changes + 1 == len(set(request)) < len(rows)
    assert request != sorted(request) and request != sorted(request, key=lambda key: key[2])


@pytest.mark.parametrize("rows", [0, 1, 5, 64, 169])
@pytest.mark.parametrize("world", [1, 2, 3])
def test_shares_use_every_row_once_in_as_many_steps(rows: int, world: int) -> None:
    shares = [Share(rank, world).of(rows, 32) for rank in range(world)]
    assert len({len(share) for share in shares}) == 1
    used = np.concatenate([part for share in shares for part in share] or [np.zeros(0)])
    np.testing.assert_array_equal(np.sort(used), np.arange(rows))


def test_batches_hold_the_rows_of_their_positions(plan: Plan) -> None:
    reader = Reader(plan)
    rows = reader.labelled(plan.walk[1])
    for positions, batch in reader.batches(rows, plan.schema, 32, Share(1, 2), HistoryCut(10)):
        np.testing.assert_array_equal(batch.impression_id.numpy(), rows.impression_id[positions])
        np.testing.assert_array_equal(batch.label.numpy(), rows.labels.label[positions])


def test_lists_are_read_as_they_were_written(plan: Plan) -> None:
    """Bags and vectors of days whose longest lists differ, one of which has none at all."""
    first, second, day = plan.walk[:3]
    rewrite(plan, "examples", first, lambda table: with_tags(table, [[2**62 + 1, 2**62 + 2, 3], None, []]))
    rewrite(plan, "examples", second, lambda table: with_tags(table, [None]))
    for asked, lengths in ((first, {3, 1}), (second, {1}), (day, {1, 2, 3})):
        reader = Reader(plan)
        _, batch = next(reader.batches(reader.examples(asked), plan.schema, 512, Share(), HistoryCut(10)))
        assert set(batch.bag_lengths["tags"].tolist()) == lengths
        assert batch.content["picture"].shape == (len(batch), 4) and 0 < batch.content["picture"][:, -1].mean() < 1
    both = Reader(plan).labelled(second)  # rows of two days beside each other
    assert both.columns["tags"].values.shape == (len(both), 3)
    ids = np.array([2**62 + 1, 2**62 + 2, 3])
    rows = rows_of(ids, np.zeros(3, dtype=bool), plan.schema.tables["brand"], table_salt("brand"))
    reader = Reader(plan)
    _, batch = next(reader.batches(reader.examples(first), plan.schema, 3, Share(), HistoryCut(10)))
    assert batch.bags["tags"].tolist() == [*rows, 0, 0]


def with_tags(table: pa.Table, tags: list[list[int] | None]) -> pa.Table:
    """Tags given to a day's rows in turn."""
    given = [tags[row % len(tags)] for row in range(len(table))]
    at = table.schema.get_field_index("tags")
    return table.set_column(at, "tags", pa.array(given, pa.list_(pa.int64())))


def test_a_share_without_rows_is_one_row_without_labels(plan: Plan) -> None:
    reader = Reader(plan)
    rows = reader.labelled(plan.walk[1]).take(np.arange(5))
    (_, _), (positions, batch) = reader.batches(rows, plan.schema, 4, Share(1, 2), HistoryCut(10))
    assert (len(positions), len(batch), float(batch.mask.sum())) == (0, 1, 0.0)


def test_histories_are_of_earlier_days_only(plan: Plan) -> None:
    reader = Reader(plan)
    lengths = {
        day: sum(
            int(batch.history_lengths.sum())
            for _, batch in reader.batches(reader.examples(day), plan.schema, 64, Share(), HistoryCut(1000))
        )
        for day in plan.walk
    }
    assert lengths[plan.walk[0]] == 0 < lengths[plan.walk[1]] < lengths[plan.walk[2]]


def test_a_pair_without_its_example_names_both(plan: Plan) -> None:
    day = plan.walk[0]
    rewrite(plan, "examples", day, lambda table: table.slice(1))
    with pytest.raises(ReaderError, match=f"labels of {day} hold a pair of impression 0 of {day}"):
        Reader(plan).labelled(day)
    earlier = {key: entry for key, entry in plan.examples.items() if key != plan.walk[0]}
    short = replace(plan, walk=plan.walk[1:], examples=earlier)
    with pytest.raises(ReaderError, match=f"labels of {plan.walk[1]} .* of {plan.walk[0]}, but the plan lists no"):
        Reader(short).labelled(plan.walk[1])


def test_a_pair_or_an_example_that_is_there_twice_is_refused(plan: Plan) -> None:
    day = plan.walk[0]
    rewrite(plan, "labels", day, lambda table: pa.concat_tables([table, table.slice(3, 1)]))
    with pytest.raises(ReaderError, match=f"impression 3 of {day} and task click twice"):
        Reader(plan).labelled(day)
    rewrite(plan, "examples", day, lambda table: pa.concat_tables([table, table.slice(4, 1)]))
    with pytest.raises(ReaderError, match="impression 4 twice"):
        Reader(plan).examples(day)


def test_an_unknown_task_or_column_or_file_is_one_sentence(plan: Plan) -> None:
    day = plan.walk[0]
    names = pa.array(["view"] * len(pq.read_table(plan.labels[day].paths[0])))
    rewrite(plan, "labels", day, lambda table: table.set_column(table.column_names.index("task"), "task", names))
    with pytest.raises(ReaderError, match=r"tasks \['view'\]"):
        Reader(plan).labelled(day)
    rewrite(plan, "examples", day, lambda table: table.drop_columns(["brand"]))
    with pytest.raises(GemlineError, match=r"no columns \['brand'\]"):
        Reader(plan).examples(day)
    Path(plan.examples[plan.walk[1]].paths[0]).unlink()
    with pytest.raises(GemlineError, match=f"examples of {plan.walk[1]}: cannot read"):
        Reader(plan).examples(plan.walk[1])


def test_a_closed_day_has_no_rows(plan: Plan) -> None:
    day = plan.walk[2]
    closed = {day: DayFiles("empty")}
    reader = Reader(replace(plan, examples=plan.examples | closed, labels=plan.labels | closed))
    assert len(reader.examples(day)) == len(reader.labelled(day)) == 0
    assert list(reader.batches(reader.examples(day), plan.schema, 32, Share(), HistoryCut(10))) == []


def test_the_gate_adds_earlier_examples_of_primary_pairs_only(plan: Plan) -> None:
    late = {"ds": [plan.walk[0]] * 2, "impression_id": [5, 6], "task": ["click", "buy"]}
    more = pa.table({**late, "label": [1.0, 1.0], "weight": [1.0, 1.0]})
    rewrite(plan, "labels", plan.partition, lambda table: pa.concat_tables([table, more]))
    reader = Reader(plan)
    gate, today = reader.gate(reader.plan.partition), reader.examples(plan.partition)
    assert gate.impression_id[len(today) :].tolist() == [5]
    assert gate.labels is None


def test_ids_beyond_float_precision_stay_exact_beside_nulls(plan: Plan) -> None:
    day, large = plan.walk[0], 2**53 + 1
    ids = pa.array([None, *[large] * 149], pa.int64())
    rewrite(
        plan,
        "examples",
        day,
        lambda table: table.set_column(table.column_names.index("user_id"), "user_id", ids),
    )
    column = Reader(plan).examples(day).columns["user_id"]
    assert column.missing.tolist()[:2] == [True, False]
    assert column.values[1] == large


def test_a_day_becomes_batches_fast_enough(plan: Plan) -> None:
    reader = Reader(plan)
    rows = reader.labelled(plan.walk[2])
    many = rows.take(np.tile(np.arange(len(rows)), 200))
    started = time.perf_counter()
    read = sum(len(batch) for _, batch in reader.batches(many, plan.schema, 512, Share(), HistoryCut(10)))
    assert read == len(many)
    # measured: over 100,000 rows a second on an idle core; a loop over rows would give a few thousand
    assert read / (time.perf_counter() - started) > 15_000
