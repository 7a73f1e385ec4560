"""Batches: built by name, histories shared per request, selecting and joining equal to building anew."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from features.transform.batch import Batch, HistoryStore, Labels, build_batch, concat, slice_histories
from features.transform.columns import Column, as_column, of_lists
from features.transform.hashing import rows_of, string_id, table_salt
from features.transform.schema import (
    Categorical,
    Content,
    Dense,
    FeatureSchema,
    History,
    HistoryField,
    SchemaError,
    TaskSpec,
)

SCHEMA = FeatureSchema(
    categorical=(Categorical("ad_id", "ad"), Categorical("maker", "maker"), Categorical("tags", "maker", multi=True)),
    dense=(Dense("clicks", "count"),),
    history=History((HistoryField("ad_id", "ad", "ad_id"),), 4),
    tables={"ad": 1000, "maker": 50},
    surfaces=("feed", "search"),
    event_types=("click",),
    tasks=(TaskSpec("click", True), TaskSpec("buy")),
    content=(Content("look", 3),),
)
RNG = np.random.default_rng(0)
STORE = HistoryStore.from_arrays(
    RNG.integers(0, 6, 80),
    np.zeros(80),
    RNG.integers(0, 50, 80) * 1_000_000,
    np.zeros(80),
    {"ad_id": np.arange(80)},
)
USER = np.array([0, 0, 0, 1, 1, 7, 2, 2, 0, 3])
REQUEST = np.array([60, 60, 60, 60, 60, 60, 70, 70, 80, 60]) * 1_000_000
COLUMNS = {
    "impression_id": np.arange(10),
    "surface": np.array(["feed", "search"] * 5, dtype=object),
    "ad_id": Column(np.arange(10), np.arange(10) == 3),
    "maker": np.array(["a", "b", None, "a", "b", "a", "b", "a", "b", "a"], dtype=object),
    "clicks": np.arange(10.0),
    "tags": of_lists([[1, 2, 3], None, [], [4], [5, None], [6, 7], None, [8], [9], [1, 9]], np.int64),
    "look": as_column(np.where(np.arange(10)[:, None] % 4 == 1, np.nan, np.arange(30.0).reshape(10, 3))),
    "keep_rate": np.full(10, 0.5),
    "ignored": np.arange(10),
}
LABELS = Labels(*(RNG.random((10, 2)) for _ in range(3)))


def build(index: np.ndarray) -> Batch:
    """The rows `index`, built from columns."""
    columns = {
        name: Column(*(part[index] for part in data)) if isinstance(data, Column) else data[index]
        for name, data in COLUMNS.items()
    }
    histories = slice_histories(SCHEMA, STORE, USER[index], np.ones(len(index)), REQUEST[index])
    return build_batch(SCHEMA, columns, histories, Labels(*(part[index] for part in LABELS)))


def flat(batch: Batch) -> list[list[float]]:
    """Everything an example holds, its history spelled out, so that sharing does not show."""
    ends = batch.history_lengths.cumsum(0).tolist()
    out = []
    for index, row in enumerate(batch.rows_of_history.tolist()):
        part = slice(ends[row] - int(batch.history_lengths[row]), ends[row])
        values = [float(rows[index]) for rows in batch.categorical.values()]
        for name, lengths in batch.bag_lengths.items():
            end = int(lengths[: index + 1].sum())
            values += [-2.0, *batch.bags[name][end - int(lengths[index]) : end].tolist()]
        for tensor in (*batch.content.values(), batch.dense, batch.label, batch.mask, batch.weight):
            values += tensor[index].tolist()
        for tensor in (batch.surface, batch.keep_rate, batch.impression_id):
            values.append(float(tensor[index]))
        values += [float(batch.history_span[row]), -1.0]
        for tensor in (*batch.history.values(), batch.history_age, batch.history_type):
            values += tensor[part].tolist()
        out.append(values)
    return out


def test_columns_land_under_their_names() -> None:
    batch = build(np.arange(10))
    ids, missing = np.arange(10), np.arange(10) == 3
    assert batch.categorical["ad_id"].tolist() == rows_of(ids, missing, 1000, table_salt("ad")).tolist()
    a = rows_of(np.array([string_id("a")]), np.array([False]), 50, table_salt("maker"))[0]
    assert batch.categorical["maker"][[0, 2]].tolist() == [a, 0]
    assert batch.surface.tolist() == [0, 1] * 5
    bag = rows_of(np.array([1, 2, 3]), np.zeros(3, dtype=bool), 50, table_salt("maker"))
    assert batch.bags["tags"][:5].tolist() == [*bag, 0, 0]
    assert batch.bag_lengths["tags"].tolist() == [3, 1, 1, 1, 1, 2, 1, 1, 1, 2]
    assert batch.content["look"][:2].tolist() == [[0, 1, 2, 0], [0, 0, 0, 1]]
    assert batch.dense[:, 0].tolist() == pytest.approx(np.log1p(np.arange(10.0)).tolist())
    assert batch.dense.dtype == batch.label.dtype == batch.history_age.dtype == torch.float32
    assert len(batch.history_lengths) == 6  # six (user, request) pairs, the unknown user included


def test_span_is_the_age_of_the_first_kept_event() -> None:
    batch = build(np.array([0, 5]))
    row = int(batch.rows_of_history[0])
    start = int(batch.history_lengths[:row].sum())
    assert batch.history_span[row] == batch.history_age[start] == batch.history_age[start : start + 4].max()
    assert batch.history_span[batch.rows_of_history[1]] == 0


@pytest.mark.parametrize("index", [[0], [9, 0, 3], [5], [], [2, 2, 8], list(range(10))])
def test_selecting_rows_equals_building_them(index: list[int]) -> None:
    picked = build(np.arange(10)).rows(index)
    assert flat(picked) == flat(build(np.array(index, dtype=np.int64)))
    assert len(picked.history_lengths) <= max(len(picked), 1)


def test_slices_and_masks_select_too() -> None:
    batch = build(np.arange(10))
    mask = torch.arange(10) % 3 == 0
    assert flat(batch.rows(slice(2, 7))) == flat(batch)[2:7]
    assert flat(batch.rows(mask)) == flat(batch)[::3]


def test_concat_restores_what_was_split() -> None:
    batch = build(np.arange(10))
    joined = concat([batch.rows(slice(0, 3)), batch.rows([]), batch.rows(slice(3, 10))])
    assert flat(joined) == flat(batch)
    with pytest.raises(ValueError, match="at least one"):
        concat([])


def test_without_history_row_every_example_has_its_own() -> None:
    batch = build(np.array([0, 3, 6]))
    own = Batch(**{**batch.__dict__, "history_row": None})
    assert own.rows_of_history.tolist() == [0, 1, 2]


def test_scoring_has_zero_masks_and_full_keep_rate() -> None:
    histories = slice_histories(SCHEMA, STORE, USER, np.ones(10), REQUEST)
    columns = {name: COLUMNS[name] for name in ("impression_id", "surface")}
    batch = build_batch(SCHEMA, columns, histories)
    assert batch.mask.shape == (10, 2) and not batch.mask.any()
    assert (batch.keep_rate == 1).all()
    assert not batch.categorical["ad_id"].any()
    assert batch.bags["tags"].tolist() == [0] * 10 and (batch.content["look"] == torch.tensor([0, 0, 0, 1])).all()
    assert len(batch.to("cpu")) == 10


def test_an_empty_batch_has_every_input_of_no_row() -> None:
    """Case B14: a batch of nothing, a bag of nothing, a history of nothing."""
    batch = build(np.zeros(0, dtype=np.int64))
    assert len(batch) == 0 and len(batch.bags["tags"]) == len(batch.bag_lengths["tags"]) == 0
    assert batch.content["look"].shape == (0, 4) and batch.dense.shape == (0, 2)
    assert flat(concat([batch, build(np.arange(3))])) == flat(build(np.arange(3)))
    unknown = build(np.array([5]))  # a user without events
    assert unknown.history_lengths.tolist() == [0] and unknown.history_span.tolist() == [0]


@pytest.mark.parametrize("table_rows", [2, 7, 1000])
def test_every_id_has_one_row_of_the_table(table_rows: int) -> None:
    """Case B16: ids outside of the table, of either sign and of any size, as integers, in bags and as text."""
    ids = [-1, 0, table_rows - 1, table_rows, 2**31, 2**32 + 5, 2**63 - 1, -(2**63)]
    schema = replace(SCHEMA, tables={**SCHEMA.tables, "ad": table_rows, "maker": table_rows})
    wide = Column(np.array(ids), np.zeros(8, dtype=bool))
    columns = {
        "impression_id": np.arange(8),
        "surface": np.array(["feed"] * 8),
        "ad_id": wide,
        "maker": wide,
        "tags": of_lists([[item] for item in ids], np.int64),
    }
    histories = slice_histories(schema, STORE, np.zeros(8, dtype=np.int64), np.ones(8), np.full(8, 10**9))
    batch = build_batch(schema, columns, histories)
    for found in (*batch.categorical.values(), *batch.bags.values()):
        assert ((found >= 1) & (found < table_rows)).all()
    assert torch.equal(batch.bags["tags"], batch.categorical["maker"])
    if table_rows == 1000:
        # none is an alias of another: not -1 of the last row, not n of row 0, not 2**32 + 5 of 5
        rows = batch.categorical["ad_id"].tolist()
        five = rows_of(np.array([5]), np.array([False]), 1000, table_salt("ad"))[0]
        assert len(set(rows)) == 8 and five not in rows


def test_faults_are_named() -> None:
    histories = slice_histories(SCHEMA, STORE, USER, np.ones(10), REQUEST)
    with pytest.raises(SchemaError, match="'tv' is not in the schema"):
        build_batch(SCHEMA, {**COLUMNS, "surface": np.array(["tv"] * 10)}, histories)
    with pytest.raises(SchemaError, match="have no surface"):
        build_batch(SCHEMA, {**COLUMNS, "surface": np.array([None] * 10)}, histories)
    with pytest.raises(SchemaError, match="same rows"):
        build_batch(SCHEMA, {"surface": np.array(["feed"])}, histories)
