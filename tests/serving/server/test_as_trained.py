"""A request is given to the model just as training gives the same impression: equal tensors, all of them.

Training reads `examples` and `user_history`; the service reads the online store that was filled a day before.
"""

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import torch

from features.days import day_bounds, micros
from features.examples import examples
from features.schema_of import array_columns, schema_of
from features.spark import session
from features.store.lookup import OnlineStore
from features.store.online import materialize
from features.transform.batch import Batch, build_batch, slice_histories
from features.transform.columns import Column, of_lists
from features.transform.histories import HistoryStore
from serving.server.columns import rows_of_request
from serving.server.requests import RequestError, resolved, validated
from tests.features.store_log import DAYS, HAPPENED, copied, event, publish_events

if TYPE_CHECKING:
    from features.tables import Tables

pytestmark = pytest.mark.assets


def column(frame: pd.DataFrame, name: str) -> Column:
    values = frame[name]
    if name == "surface":
        return Column(values.to_numpy(), values.isna().to_numpy())
    if name == "request_ts":
        return Column(np.array([micros(at) for at in values]), np.zeros(len(frame), dtype=bool))
    if name in ("tags", "image"):
        return of_lists(list(values), np.int64 if name == "tags" else np.float32)
    kind = np.float64 if values.dtype == np.float64 else np.int64
    present = [0 if item is None or pd.isna(item) else item for item in values]
    return Column(np.array(present, dtype=kind), values.isna().to_numpy())


def trained(tables: "Tables", rows: list[Any]) -> Batch:
    """The batch of training."""
    schema = schema_of(tables.world, tables.world.history.recent_length)
    frame = pd.DataFrame([row.asDict() for row in rows], dtype="object")
    frame["request_ts"] = [row["request_ts"].astimezone() for row in rows]
    for feature in schema.dense:
        frame[feature.name] = frame[feature.name].astype("float64")
    columns = {str(name): column(frame, str(name)) for name in frame if name not in ("ds", "request_id", "keep_rate")}
    names = array_columns(tables.world)
    events: dict[str, list[Any]] = {name: [] for name in ("user_id", "day", *names)}
    for row in tables.read_through("user_history", DAYS[-1]).collect():
        events["user_id"] += [row["user_id"]] * len(row["event_us"])
        events["day"] += [date.fromisoformat(row["ds"]).toordinal()] * len(row["event_us"])
        for name in names:
            events[name] += row[name]
    flat = pd.DataFrame(events, dtype="object")
    arrays = {name: column(flat, name) for name in flat}
    store = HistoryStore.from_arrays(
        arrays["user_id"].values,
        arrays["day"].values,
        arrays["event_us"].values,
        arrays["event_type"].values,
        {name: arrays[name] for name in names[2:]},
    )
    day = np.array([date.fromisoformat(row["ds"]).toordinal() for row in rows])
    return build_batch(
        schema, columns, slice_histories(schema, store, columns["user_id"], day, columns["request_ts"].values)
    )


def served(tables: "Tables", row: Any, more: list[int], events: Sequence[dict[str, Any]] = ()) -> Batch:
    """The batch of the service for the same impression, among candidates that training does not have."""
    world = tables.world
    schema = schema_of(world, world.history.recent_length)
    ads = [{"ad_id": row["ad_id"]}, *({"ad_id": ad} for ad in more)]
    context = {"device": 7, "format": None if row["format"] is None else "video"}
    given = {
        "vertical": "feed_click",
        "user_id": row["user_id"],
        "ads": ads,
        "context": context,
        "events": list(events),
    }
    asked = resolved(validated(given), world, (row["surface"],))
    at = row["request_ts"].astimezone()
    rows = rows_of_request(world, asked, at, OnlineStore(world, tables.home).features(asked.users, asked.ads, at))
    histories = slice_histories(
        schema, rows.histories, rows.columns["user_id"], rows.day, rows.columns["request_ts"].values
    )
    return build_batch(schema, rows.columns, histories)


@pytest.mark.parametrize("until", [1, 3])
def test_the_model_sees_what_it_was_trained_on(until: int) -> None:
    """Impressions of a day against the store as it was filled after the day before.

    Not those of its first minutes, when the statistics of the day before are not available yet: they come before the
    world's now, so that no request may name their time.
    """
    tables = copied(session(), f"as-trained-{until}")
    materialize(tables.world, tables.home, tables, DAYS[:until])
    start = day_bounds(DAYS[until], tables.world.timezone)[0] + tables.world.statistics.lag
    found = examples(tables.spark, tables.world, [DAYS[until]], tables).collect()
    rows = [row for row in found if row["request_ts"].astimezone() > start]
    batch = trained(tables, rows)
    assert len(rows) == (4 if until == 1 else 1)
    assert until == 1 or int(batch.history_lengths.sum()) > 0
    # what the ads are described by is there to be compared
    assert bool(batch.bags["tags"].any()) and not bool(batch.content["image"][:, -1].all())
    for place, row in enumerate(rows):
        same(served(tables, row, [12, 10, 99]).rows([0]), batch.rows([place]), row)


def same(ours: Batch, theirs: Batch, row: Any) -> None:
    for name in ("dense", "surface", "history_lengths", "history_age", "history_type", "history_span"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), (row["impression_id"], name)
    groups = ("categorical", "bags", "bag_lengths", "content", "history")
    for mine, other in ((getattr(ours, group), getattr(theirs, group)) for group in groups):
        assert {name: tensor.tolist() for name, tensor in mine.items()} == {
            name: tensor.tolist() for name, tensor in other.items()
        }, row["impression_id"]


def test_a_request_that_carries_its_days_events_is_seen_as_trained_with_them() -> None:
    """History `as_of: request`: what happened at the request or after it is no part of either side."""
    tables = copied(session(), "as-carried")
    world = tables.world
    tables.world = world.model_copy(update={"history": world.history.model_copy(update={"as_of": "request"})})
    stamps = ("2024-03-08 13:00:00", "2024-03-08 14:59:59.999999", "2024-03-08 15:00:00", "2024-03-08 15:30:00")
    publish_events(tables, HAPPENED + [event(1, 11, at, DAYS[1], brand=6) for at in stamps])
    materialize(tables.world, tables.home, tables, DAYS[:1])
    found = examples(tables.spark, tables.world, [DAYS[1]], tables).where("impression_id = 2").collect()
    before = [{"event_type": "click", "event_ts": f"{at}Z", "fields": {"ad_id": 11, "brand": 6}} for at in stamps[:2]]
    theirs, ours = trained(tables, found), served(tables, found[0], [], before)
    assert theirs.history_lengths.tolist() == [4] and theirs.history_age.min() > 0
    same(ours, theirs, found[0])
    with pytest.raises(RequestError, match=r"events.0.event_ts: must be of the request's day and before it"):
        served(tables, found[0], [], [{**before[0], "event_ts": f"{stamps[2]}Z"}])
