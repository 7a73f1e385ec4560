"""A log of many small universes, each with a user, an ad, requests, and one future row that can be restated.

A plant is (table, column, timing): the row of that table in the plant's own universe, stamped at that timing
relative to the universe's anchor request, gets another value in that column, or is not there before it is planted
(column `*`). Universes share no ids, so all plants are restated in one pass and each is still judged alone.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from features.days import day_of, day_range
from features.ids import id_of
from tests.features.frames import ADS, EVENTS, IMPRESSIONS, OUTCOMES, USERS, utc

ZONE = "America/New_York"
DAYS = day_range("2024-10-31", "2024-11-05")
"""The 3rd of November has 25 hours: clocks go back at 06:00 UTC."""

DDL = {"impressions": IMPRESSIONS, "outcomes": OUTCOMES, "events": EVENTS, "users": USERS, "ads": ADS}
NEW_ROW = "*"
TIMINGS = ("at", "just after", "long after", "late correction")
MICROSECOND = timedelta(microseconds=1)
ANCHORS = (
    "2024-11-02 04:00:00",  # midnight
    "2024-11-02 04:10:00",  # before the statistics of the day before are available
    "2024-11-02 16:30:00",
    "2024-11-03 03:59:59.999999",  # a day's last instant
    "2024-11-03 05:30:00",  # half past one, the first time
    "2024-11-03 06:30:00",  # and the second
    "2024-11-03 20:00:00",
)
INERT = {"impressions", "outcomes"}
"""Tables of which nothing is an input of another impression, ever."""
SILENT = {("events", "surface")}
"""Columns of the other tables that no feature is made of."""
REQUESTS = 6
"""Requests of a universe, numbered from ten times its own number on."""


@dataclass(frozen=True)
class Plant:
    """One universe, and what is planted in it.

    Attributes:
        number: of the universe; its ids begin with it.
        table: which row is restated.
        column: in which column.
        timing: one of `TIMINGS`.
    """

    number: int
    table: str
    column: str
    timing: str

    @property
    def user(self) -> int:
        """The universe's user: a hash that floating point cannot hold."""
        return 2**61 + 2 * self.number + 1

    @property
    def ad(self) -> int:
        """The universe's ad."""
        return 2**60 + 2 * self.number + 1

    @property
    def anchor(self) -> datetime:
        """Instant of the request that the plant comes after."""
        return utc(ANCHORS[self.number % len(ANCHORS)])

    @property
    def stamp(self) -> datetime:
        """What the planted row says of when it happened."""
        spans = {"at": timedelta(0), "just after": MICROSECOND, "long after": timedelta(hours=26)}
        return self.anchor + spans.get(self.timing, timedelta(hours=-20))

    @property
    def known(self) -> datetime:
        """First instant at which anyone can know of the planted row."""
        return self.anchor + MICROSECOND if self.timing == "late correction" else self.stamp


def plants() -> list[Plant]:
    """Every column of every table at every timing, and whole rows."""
    columns = {table: [part.split()[0] for part in ddl.split(", ")] for table, ddl in DDL.items()}
    asked = [
        (table, column, timing)
        for table, names in columns.items()
        for column in (NEW_ROW, *names)
        for timing in TIMINGS
        # an impression is shown when it is requested
        if not (table == "impressions" and (column == "ds" or timing == "late correction"))
    ]
    return [Plant(number, *what) for number, what in enumerate(asked)]


def base_rows(plant: Plant) -> dict[str, list[dict[str, Any]]]:
    """What the universe's log holds whatever is planted: rows by table."""
    first = utc("2024-10-31 04:00:00")
    known = {"event_timestamp": _text(first), "available_ts": _text(first), "ds": DAYS[0]}
    times = [utc("2024-11-01 16:00:00"), plant.anchor, plant.anchor, plant.anchor + timedelta(hours=1)]
    # the first sees what is late within the windows, the second also what came long after
    times += [utc("2024-11-04 23:00:00"), utc("2024-11-05 23:00:00")]
    ads = [plant.ad, plant.ad, 7, *[plant.ad] * 3]
    return {
        "impressions": [
            _shown(10 * plant.number + place, plant.user, ad, at)
            for place, (at, ad) in enumerate(zip(times, ads, strict=True))
        ],
        "outcomes": [],
        "events": [_event(plant.user, plant.ad, first + timedelta(hours=hours), DAYS[0], hours) for hours in (1, 9)],
        "users": [{"user_id": plant.user, "country": 1, "age_band": 2, **known}],
        "ads": [{"ad_id": plant.ad, "brand": 1, "topic": 2, "objective": 3, "tags": [4], "image": [0.5] * 4, **known}],
    }


def future_row(plant: Plant) -> dict[str, Any]:
    """The row that is restated, before it is.

    Where an id is what changes, the row is somebody else's before, and the universe's own after.
    """
    stamp, ds = plant.stamp, day_of(plant.known, ZONE)
    user = 5 if plant.column == "user_id" else plant.user
    ad = 6 if plant.column == "ad_id" else plant.ad
    attributes = {"event_timestamp": _text(stamp), "available_ts": _text(plant.known), "ds": ds}
    return {
        "impressions": lambda: _shown(10 * plant.number + 9, user, ad, plant.known),
        "outcomes": lambda: {
            "request_id": 10 * plant.number + 1,
            "user_id": user,
            "ad_id": ad,
            "event_type": "click",
            "event_ts": _text(stamp),
            "value": 1.0,
            "ds": ds,
        },
        "events": lambda: _event(user, ad, stamp, ds, 10 * plant.number + 1),
        "users": lambda: {"user_id": user, "country": 11, "age_band": 12, **attributes},
        "ads": lambda: {
            "ad_id": ad, "brand": 11, "topic": 12, "objective": 13, "tags": [14], "image": [1.5] * 4, **attributes
        },
    }[plant.table]()  # fmt: skip


def restated(plant: Plant, wild: int) -> dict[str, Any]:
    """The planted row, with a value in the plant's column that `wild`, any number from 1 on, decides."""
    row = future_row(plant)
    if plant.column == NEW_ROW:
        return row
    later = plant.known + timedelta(seconds=wild % 20_000)
    # a future stamp moves on to the last day, a late correction corrects it to before all others
    moved = _text(utc("2024-10-30 12:00:00" if plant.timing == "late correction" else "2024-11-05 12:00:00"))
    values: dict[str, Any] = {
        "user_id": plant.user,
        "ad_id": plant.ad,
        "surface": "story",
        "event_type": "buy",
        "keep_rate": 1.0,
        "value": 1.0 + wild % 1_000,
        "format": f"format {wild}",
        "objective": id_of(f"objective {wild}") if plant.table == "ads" else f"objective {wild}",
        "position": 1 + wild % 9,
        "tags": [wild, -wild],
        "image": [float(wild % 97)] * 4,
        "event_ts": _text(plant.stamp + timedelta(seconds=1 + wild % 20_000)),
        "event_timestamp": moved,
        "available_ts": _text(utc("2024-11-05 12:00:00")),
        "request_ts": _text(later),
        # the number of a user's requests
        "request_id": None if plant.table == "events" else -wild,
        "window_end": _text(later),
        "impression_id": -1 - 10 * plant.number,
        "ds": DAYS[-1],
    }
    changed = {**row, plant.column: values.get(plant.column, -wild)}
    if plant.column in ("event_ts", "event_timestamp", "available_ts", "request_ts"):
        changed["ds"] = max(row["ds"], day_of(utc(changed[plant.column]), ZONE))
    return changed


def rows_of(asked: Sequence[Plant], planted: dict[Plant, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """All rows of all universes by table; of plants that are not planted, the future row as it was before."""
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in DDL}
    for plant in asked:
        for table, own in base_rows(plant).items():
            rows[table] += own
        if plant in planted:
            rows[plant.table].append(planted[plant])
        elif plant.column != NEW_ROW:
            rows[plant.table].append(future_row(plant))
    # every day of a table has to have rows
    for day, table in itertools.product(DAYS, ("impressions", "outcomes", "events")):
        noon = utc(f"{day} 17:00:00")
        number = 9_000_000 + DAYS.index(day)
        ids = {"user_id": 3, "ad_id": 4, "request_id": number, "event_type": "click", "ds": day}
        filler = _shown(number, 3, 4, noon) if table == "impressions" else {**ids, "event_ts": _text(noon)}
        rows[table].append(filler)
    return rows


def _shown(ident: int, user: int, ad: int, at: datetime) -> dict[str, Any]:
    own = {"impression_id": ident, "request_id": ident, "user_id": user, "ad_id": ad, "surface": "feed"}
    more = {"position": 1, "keep_rate": 0.5, "value": 1.0, "objective": "sales", "format": "video"}
    return {**own, **more, "context_device": 7, "request_ts": _text(at), "ds": day_of(at, ZONE)}


def _event(user: int, ad: int, at: datetime, ds: str, request: int) -> dict[str, Any]:
    own = {"user_id": user, "ad_id": ad, "event_type": "click", "surface": "feed", "request_id": request}
    return {**own, "value": 1.0, "brand": 1, "event_ts": _text(at), "ds": ds}


def _text(at: datetime) -> str:
    return f"{at:%F %T.%f}"
