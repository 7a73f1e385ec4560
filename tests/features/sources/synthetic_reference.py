"""The world `synthetic_ads` once more, a row at a time: the probability of a click from the logged tables.

States of a user are read off the events before the day of the request, as a model could, and never off the hashes that
the generator has them from. Constants are written out again: a changed equation has to be changed twice.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from features.sources.synthetic_ads.draws import Numbers

DAY_US = 86_400_000_000
USER, AD = 1_000_001, 1_000_000_000
TYPES = ("browse", "look_up", "save", "compare")
CLICK = {"feed": -3.9, "stories": -3.8, "reels": -4.0, "search": -3.5, "apps": -3.7}
VIEW = {"feed": 0.3, "stories": 0.7, "reels": 0.9, "search": 0.0, "apps": 0.5}
CONFLICT = {"feed": 1, "stories": -1, "reels": 1, "search": -1, "apps": 0}
SURFACES = tuple(CLICK)
FORMATS = ("image", "video", "carousel", "collection")
OBJECTIVES = ("awareness", "traffic", "sales", "app")


class Past:
    """A user's events before a day, in order of time."""

    def __init__(self, events: Sequence[Mapping[str, Any]], day: int) -> None:
        """Cut the events that are stamped at or after the day's first instant."""
        self.day = day
        stamps = [event["us"] for event in events]
        self.events = events[: bisect_left(stamps, day * DAY_US)]

    def last(self, **wanted: object) -> Mapping[str, Any] | None:
        """The newest event with the given values."""
        for event in reversed(self.events):
            if all(event[name] == value for name, value in wanted.items()):
                return event
        return None

    def wish(self, phase: int) -> int | None:
        """Aisle uttered at the beginning of the era before the last."""
        begun = (self.day + phase) // 20 * 20 - phase - 40
        days = range(begun, begun + 4)
        said = [e["aisle"] for e in self.events if e["event_type"] == "wish" and e["us"] // DAY_US in days]
        # all four days or none: a user who joined within them had no era of that beginning
        return said[0] if len(said) == 4 else None

    def cycle(self) -> tuple[int, int, int] | None:
        """Aisle, length and age in days of the restocking cycle, from the last two times."""
        times = [e for e in self.events if e["event_type"] == "restock"]
        if len(times) < 2:
            return None
        before, last = (e["us"] // DAY_US for e in times[-2:])
        length = last - before
        return times[-1]["aisle"], length, (self.day - last) % length

    def place(self) -> int:
        """Where the last organic event was."""
        return next(e["place"] for e in reversed(self.events) if e["place"] is not None)


def click_probability(seed: int, row: Mapping[str, Any], user: Mapping, ad: Mapping, events: Sequence) -> float:
    """P(click) of an impression, its window aside.

    Args:
        seed: of the world.
        row: of `impressions`.
        user: row of `users`.
        ad: row of `ads`.
        events: all of the user's events in order of time, each with `us`.
    """
    n, u = Numbers(seed), row["user_id"] - USER
    day = row["us"] // DAY_US
    liking = sum(n.normal("taste", u, k) * n.normal("category", ad["category"], k) for k in range(4)) / 2
    looks = 1 / (1 + math.exp(-_view(n, row, u, liking)))
    past = Past(events, day)
    score = _plain(n, row, u) + _preferences(n, row, user, ad, liking) + _past(n, row, user, ad, past)
    return looks / (1 + math.exp(-score))


def _view(n: Numbers, row: Mapping, u: int, liking: float) -> float:
    kind, place = FORMATS.index(row["format"]), SURFACES.index(row["surface"])
    hour = row["us"] % DAY_US / 3.6e9
    device = (0.4, 0.0, -0.6)[row["context_device"]]
    plain = VIEW[row["surface"]] + 0.9 * n.normal("attention", u) + 0.6 * n.normal("format", kind, place) + device
    return plain + 0.4 * math.cos(2 * math.pi * (hour - 20) / 24) + 0.4 * liking


def _plain(n: Numbers, row: Mapping, u: int) -> float:
    device = (0.2, 0.0, -0.3)[row["context_device"]]
    return CLICK[row["surface"]] + 0.3 * n.normal("propensity", u) + 0.25 * n.normal("appeal", row["ad_id"]) + device


def _preferences(n: Numbers, row: Mapping, user: Mapping, ad: Mapping, liking: float) -> float:
    surfaces = 0.4 * liking + 0.4 * CONFLICT[row["surface"]] * n.normal("culture", user["country"], ad["aisle"])
    fields = (user["age"], user["country"], FORMATS.index(row["format"]), OBJECTIVES.index(row["objective"]))
    crosses = 0.4 * math.prod((-1) ** value for value in fields)
    hidden = 0.4 * n.sign("page", row["context_page"], ad["aisle"])
    drift = 0.35 * math.sin(2 * math.pi * ((row["us"] // DAY_US - row["first"]) / 56 + ad["category"] / 12))
    own = [n.normal("content", row["ad_id"], k) for k in range(8)]
    topics = [n.normal("topic value", topic) for topic in ad["topics"]]
    content = 0.35 * sum(own) / math.sqrt(8) + 0.25 * sum(topics) / len(topics)
    return surfaces + crosses + hidden + drift + content


def _past(n: Numbers, row: Mapping, user: Mapping, ad: Mapping, past: Past) -> float:
    u, total = row["user_id"] - USER, 0.0
    wish = past.wish(n.below("era phase", 20, u))
    if wish is not None:
        total += 1.1 * ((wish == ad["aisle"]) - 0.25)
    cycle = past.cycle()
    if cycle is not None:
        aisle, length, age = cycle
        total += 1.5 * math.cos(2 * math.pi * age / length) * ((aisle == ad["aisle"]) - 0.25)
    looked = past.last(event_type=TYPES[user["age"]])
    if looked is not None:
        state = past.place()
        value = (user["age"], user["income"], user["country"])[state]
        total += 1.1 * ((looked["aisle"] == ad["aisle"]) - 0.25)
        total += 0.4 * n.sign("fits", state, value, FORMATS.index(row["format"]))
    return total
