"""Random behaviour and random requests, chosen so that whatever can go wrong at an instant happens often.

Stamps are shared by many events, some events arrive days late or twice, users differ in activity by orders of
magnitude; requests stand on event stamps, on midnights, on the instants at which statistics become available, and a
microsecond to either side.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from features.days import shift

ZONE = "America/New_York"
TYPES = ("click", "buy")
MINUTE_US = 60_000_000
LAG_US = 30 * MINUTE_US
NOTHING = -1
"""A request's user, an event's request or brand that is missing."""


@dataclass(frozen=True)
class Sizes:
    """How much is drawn.

    Attributes:
        users: with events; about 3 % of requests are of others, as many of nobody.
        ads: with events.
        days: local days.
        events: of all users together.
        heavy: of these, events of user 0.
        requests: random ones.
    """

    users: int
    ads: int
    days: int
    events: int
    heavy: int
    requests: int


@dataclass(frozen=True)
class Log:
    """E events and R requests; days count from 0, ids from 0.

    Attributes:
        first: the first day.
        edges: int64 [days + 1], midnights in UTC microseconds.
        events: columns user, ad, us, day (of arrival), type (of `TYPES`), request, cents, brand.
        requests: columns user, ad, us.
    """

    first: str
    edges: np.ndarray
    events: dict[str, np.ndarray]
    requests: dict[str, np.ndarray]

    @property
    def days(self) -> list[str]:
        """Local days as text."""
        return [shift(self.first, number) for number in range(len(self.edges) - 1)]

    def day_of(self, us: np.ndarray) -> np.ndarray:
        """Number of the local day of each instant."""
        return np.searchsorted(self.edges, us, side="right") - 1

    @cached_property
    def request_day(self) -> np.ndarray:
        """Day of each request."""
        return self.day_of(self.requests["us"])

    def write_events(self, path: Path) -> None:
        """Rows of `events`, ids as they are."""
        own = self.events
        names, days = np.array(TYPES), np.array(self.days)
        columns = {
            "user_id": pa.array(own["user"]),
            "event_ts": _instants(own["us"]),
            "event_type": pa.array(names[own["type"]]),
            "ad_id": pa.array(own["ad"]),
            "surface": pa.array(np.full(len(own["us"]), "feed")),
            "request_id": pa.array(own["request"], mask=own["request"] == NOTHING),
            "value": pa.array(own["cents"] / 100),
            "brand": pa.array(own["brand"], mask=own["brand"] == NOTHING),
            "ds": pa.array(days[own["day"]]),
        }
        pq.write_table(pa.table(columns), path)

    def write_requests(self, path: Path) -> None:
        """The requests as impressions that were never shown: their ids are their places."""
        own, place = self.requests, pa.array(np.arange(len(self.requests["us"])))
        columns = {
            "impression_id": place,
            "request_id": place,
            "user_id": pa.array(own["user"], mask=own["user"] == NOTHING),
            "ad_id": pa.array(own["ad"]),
            "surface": pa.array(np.full(len(own["us"]), "feed")),
            "request_ts": _instants(own["us"]),
            "keep_rate": pa.array(np.ones(len(own["us"]))),
            "ds": pa.array(np.array(self.days)[self.request_day]),
        }
        pq.write_table(pa.table(columns), path)


def draw(sizes: Sizes, first: str, seed: int) -> Log:
    """A log of so many days from `first` on."""
    rng = np.random.default_rng(seed)
    # zones by pandas, not by the code that is judged
    edges = pd.date_range(first, periods=sizes.days + 1, freq="D", tz=ZONE).as_unit("us").asi8
    log = Log(first, edges, _events(sizes, edges, rng), {})
    return Log(first, edges, log.events, _requests(sizes, log, rng))


def _events(sizes: Sizes, edges: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    count = sizes.events
    weight = 1 / np.arange(1, sizes.users + 1) ** 0.6
    user = rng.choice(sizes.users, count, p=weight / weight.sum())
    user[: sizes.heavy] = 0
    us = rng.integers(edges[0], edges[-1], count)
    us = np.where(rng.random(count) < 0.3, np.maximum(edges[0], us // (10 * MINUTE_US) * (10 * MINUTE_US)), us)
    late = np.where(rng.random(count) < 0.1, rng.integers(1, 4, count), 0)
    events = {
        "user": user,
        "ad": rng.integers(0, sizes.ads, count),
        "us": us,
        "day": np.searchsorted(edges, us, side="right") - 1 + late,
        "type": rng.integers(0, len(TYPES), count),
        "request": np.where(rng.random(count) < 0.1, NOTHING, rng.integers(0, count // 3 + 1, count)),
        "cents": rng.integers(0, 10_000, count),
        "brand": np.where(rng.random(count) < 0.1, NOTHING, rng.integers(0, 50, count)),
    }
    twice = np.append(np.arange(count), rng.integers(0, count, count // 100))
    kept = twice[events["day"][twice] < len(edges) - 1]
    return {name: column[kept] for name, column in events.items()}


def _requests(sizes: Sizes, log: Log, rng: np.random.Generator) -> dict[str, np.ndarray]:
    count = sizes.requests
    like = rng.integers(0, len(log.events["us"]), count)
    user, ad = log.events["user"][like], log.events["ad"][like]
    user = np.where(rng.random(count) < 0.5, rng.integers(0, sizes.users, count), user)
    edge = log.edges[rng.integers(0, sizes.days, count)]
    kind = rng.choice(4, count, p=[0.35, 0.35, 0.15, 0.15])
    anywhere = rng.integers(log.edges[0], log.edges[-1], count)
    us = np.select([kind == 0, kind == 1, kind == 2], [anywhere, log.events["us"][like], edge], edge + LAG_US)
    us = np.where(kind == 0, us, us + rng.integers(-1, 3, count))
    user = np.where(kind == 1, log.events["user"][like], user)
    user = np.where(rng.random(count) < 0.03, sizes.users + 5, user)
    user = np.where(rng.random(count) < 0.03, NOTHING, user)
    ad = np.where(rng.random(count) < 0.03, sizes.ads + 5, ad)
    return {"user": user, "ad": ad, "us": np.clip(us, log.edges[0], log.edges[-1] - 1)}


def _instants(us: np.ndarray) -> pa.Array:
    return pa.array(us, pa.timestamp("us", tz="UTC"))
