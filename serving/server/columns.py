"""From stored features to the very columns and histories that training reads from its tables.

One row a candidate, under the names of `features.examples`; what is not known is missing, as there. The short
history of the feature store stands in for `user_history`: it holds what had arrived by the end of the newest day, so
all of it counts as available on the day of the request. What happened on that day itself, a request carries, where the
world says `as_of: request`.
"""

from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np

from features.days import day_bounds, day_of, micros
from features.schema_of import SURFACE_ID, array_columns
from features.transform.columns import Column, of_lists
from features.transform.hashing import string_id
from features.transform.histories import HistoryStore
from serving.server.requests import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from features.store.lookup import OnlineFeatures
    from features.worlds.schema import World
    from serving.server.requests import Asked, Event

RECENT = "recent_"


@dataclass(frozen=True)
class Rows:
    """Candidates of one request, B of them, before the transform.

    Attributes:
        columns: columns of `examples`.
        histories: of the request's users alone.
        day: ordinals [B] of the request's local day.
        user_known: bool [B], some feature of the user is stored.
        ad_known: bool [B], some feature of the ad is stored.
    """

    columns: dict[str, Column]
    histories: HistoryStore
    day: np.ndarray
    user_known: np.ndarray
    ad_known: np.ndarray


def rows_of_request(world: "World", asked: "Asked", at: datetime, found: "OnlineFeatures") -> Rows:
    """What a model is given about a request.

    Args:
        world: names the features.
        asked: the request.
        at: its instant, aware.
        found: features of the distinct users and ads that are not missing.

    Raises:
        RequestError: an event that the request carries is not of its day, or not before it.
    """
    count = len(asked.ad_ids)
    local = at.astimezone(ZoneInfo(world.timezone))
    users, ads = _places(found.users, asked.user_ids), _places(found.ads, asked.ad_ids)
    arrays = [RECENT + name for name in array_columns(world)]
    columns = {
        "impression_id": _same(0, count),
        "request_ts": _same(micros(at), count),
        "surface": Column(np.full(count, asked.surface), np.zeros(count, dtype=bool)),
        SURFACE_ID: _same(string_id(asked.surface), count),
        "hour": _same(local.hour, count),
        "weekday": _same(local.weekday(), count),
        "user_id": _ids(asked.user_ids),
        "ad_id": _ids(asked.ad_ids),
    }
    columns |= {
        name: _ids([context.get(name) for context in asked.contexts]) for name in world.request_columns.values()
    }
    columns |= _taken(world, found.users.drop(columns=arrays), users) | _taken(world, found.ads, ads)
    day = date.fromisoformat(day_of(at, world.timezone)).toordinal()
    return Rows(
        columns=columns,
        histories=_histories(world, found.users[arrays], day, asked.user_id, _carried(world, asked, at)),
        day=np.full(count, day, dtype=np.int64),
        user_known=np.append(_anything(found.users), False)[users],
        ad_known=np.append(_anything(found.ads), False)[ads],
    )


def _places(frame: "pd.DataFrame", ids: "Sequence[int | None]") -> np.ndarray:
    """Row of each id in the frame, -1 for those that are missing or not there."""
    places = {int(item): place for place, item in enumerate(frame.index)}
    return np.array([-1 if item is None else places.get(item, -1) for item in ids], dtype=np.int64)


def _taken(world: "World", frame: "pd.DataFrame", places: np.ndarray) -> dict[str, Column]:
    """Columns of the frame at the places; a place of -1 is missing."""
    columns = {}
    for name in frame:
        series = frame[name]
        if series.dtype == object:
            lists = of_lists([*series, None], np.float32 if name in world.vectors else np.int64)
            columns[str(name)] = Column(lists.values[places], lists.missing[places])
            continue
        exact = series.dtype == "Int64"
        values = series.to_numpy(np.int64, na_value=0) if exact else series.to_numpy(np.float64)
        values, missing = np.append(values, 0), np.append(series.isna().to_numpy(), True)
        columns[str(name)] = Column(values[places], missing[places])
    return columns


def _anything(frame: "pd.DataFrame") -> np.ndarray:
    """Whether any value of a row is there, bool [rows]."""
    return frame.notna().to_numpy().any(axis=1) if len(frame.columns) else np.zeros(len(frame), dtype=bool)


def _same(value: int, count: int) -> Column:
    return Column(np.full(count, value, dtype=np.int64), np.zeros(count, dtype=bool))


def _ids(values: "Sequence[int | None]") -> Column:
    missing = np.array([value is None for value in values], dtype=bool)
    return Column(np.array([value or 0 for value in values], dtype=np.int64), missing)


def _carried(world: "World", asked: "Asked", at: datetime) -> "tuple[Event, ...]":
    start = micros(day_bounds(day_of(at, world.timezone), world.timezone)[0])
    for place, event in enumerate(asked.events):
        if not start <= event.event_us < micros(at):
            raise RequestError(
                f"events.{place}.event_ts: must be of the request's day and before it; what is older is stored already"
            )
    return asked.events


def _histories(
    world: "World", users: "pd.DataFrame", day: int, user_id: int | None, carried: "Sequence[Event]"
) -> HistoryStore:
    """Histories from a frame of `RECENT` arrays by user.

    Stored events count as arrived on the day before `day`, and those that the request carries on the day itself.
    """
    names = array_columns(world)
    owner: list[int] = []
    events: dict[str, list[Any]] = {name: [] for name in names}
    for user, arrays in zip(users.index, users.to_numpy(), strict=True):
        if arrays[0] is not None:
            owner += [int(user)] * len(arrays[0])
            for name, values in zip(names, arrays, strict=True):
                events[name] += values
    days = [day - 1] * len(owner) + [day] * len(carried)
    for event in carried:
        assert user_id is not None, "events of nobody are refused when a request is read"
        owner.append(user_id)
        values = {"event_us": event.event_us, "event_type": event.event_type, **event.fields}
        for name in names:
            events[name].append(values[name])
    columns = {name: _ids(values) for name, values in events.items()}
    return HistoryStore.from_arrays(
        user_id=np.array(owner, dtype=np.int64),
        day=np.array(days, dtype=np.int64),
        event_us=columns["event_us"].values,
        type=columns["event_type"].values,
        fields={name: columns[name] for name in names[2:]},
    )
