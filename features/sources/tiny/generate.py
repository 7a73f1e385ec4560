"""Writes the log of the world `tiny`: `python -m features.sources.tiny.generate` gives the same bytes again.

Forty users, thirty ads, requests on 2024-03-07, 08, 10 and 11 in New York (the 9th is closed: nothing
happened or arrived; the 10th has 23 hours). What makes clicks: every user likes two of six brands (and says
so in what they click and buy), so a model that reads histories wins; and few click on a desktop. What makes
trouble, on purpose:

- three requests a day at 00:10, before yesterday's statistics are available; some clicks in the second of
  their request;
- purchases up to 12 hours after the request that arrive up to 6 hours late, some on the next day; one after
  its window;
- users who never act, users without an attribute row, an impression without a user, two ids that a double
  cannot tell apart;
- an ad and a user whose attribute is corrected later, and a behaviour event that arrives a day late;
- ads with no tag, one or several, ads without a picture's vector, impressions of which no format is said.
"""

import csv
import json
import random
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

ZONE = ZoneInfo("America/New_York")
DAYS = ("2024-03-07", "2024-03-08", "2024-03-10", "2024-03-11")
SURFACES = ("feed", "story")
BRANDS = ("acorn", "birch", "cedar", "dogwood", "elm", "fir")
TOPICS = ("food", "home", "sport", "travel")
COUNTRIES = ("CA", "MX", "US")
OBJECTIVES = ("sales", "traffic")
TAGS = ("eco", "gift", "local", "new", "sale")
FORMATS = ("carousel", "image", "video")
AGE_BANDS = ("18-24", "25-34", "35-54", "55+")
DEVICES = ("phone", "tablet", "desktop")
# doubles cannot tell the last two apart
USERS = (*range(1001, 1039), 2**62 + 1, 2**62 + 2)
ADS = tuple(range(501, 531))
SILENT = (1003, 1017, 1029)
UNDESCRIBED = (1005, 1033)
REQUESTS_A_DAY = 40
ADS_A_REQUEST = 4
LIKED, OTHER = 0.34, 0.05
ON_DEVICE = {"phone": 1.7, "tablet": 1.0, "desktop": 0.15}
"""Factor of the click rate: what even a model of one day's log can learn, and popularity cannot."""


@dataclass
class Log:
    """Rows of the five files, in the order in which they were made."""

    impressions: list[dict] = field(default_factory=list)
    outcomes: list[dict] = field(default_factory=list)
    events: list[dict] = field(default_factory=list)
    users: list[dict] = field(default_factory=list)
    ads: list[dict] = field(default_factory=list)


class Chance:
    """Draws from one seeded stream; only `random()` is used, whose values are the same in every Python."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, bound: int) -> int:
        """An integer in [0, bound)."""
        return int(self._random.random() * bound)

    def one(self, values: tuple) -> object:
        """One of the values."""
        return values[self.below(len(values))]

    def some(self, values: tuple, count: int) -> list:
        """`count` different values."""
        rest = list(values)
        return [rest.pop(self.below(len(rest))) for _ in range(count)]

    def happens(self, probability: float) -> bool:
        """True with the given probability."""
        return self._random.random() < probability


def brand_of(ad: int) -> str:
    """Brand of an ad."""
    return BRANDS[ad % len(BRANDS)]


def liked_brands(user: int) -> tuple[str, str]:
    """The two brands that a user likes."""
    return BRANDS[user * 7 % 6], BRANDS[(user * 7 + 1 + user % 4) % 6]


def tags_of(ad: int) -> str:
    """Up to three tags of an ad, as a list in text."""
    return "|".join(TAGS[(ad + 2 * place) % 5] for place in range(ad % 4))


def image_of(ad: int) -> str:
    """The vector of an ad's picture, as a list in text; every seventh ad has none."""
    return "" if ad % 7 == 3 else json.dumps([round((ad * 37 + place * 41) % 101 / 50 - 1, 2) for place in range(4)])


def format_of(ad: int, slot: int) -> str:
    """How an ad is shown in a slot; of every eleventh ad it is not said."""
    return "" if ad % 11 == 0 else FORMATS[(ad + slot) % 3]


def described(ad: int, known: datetime, topic: str) -> dict:
    """An attribute row of an ad."""
    row = {"ad": ad, "known_from": _text(known), "brand": brand_of(ad), "topic": topic}
    return row | {"objective": OBJECTIVES[ad // 3 % 2], "tags": tags_of(ad), "image": image_of(ad)}


def generate(seed: int = 7) -> Log:
    """The whole log."""
    chance, log = Chance(seed), Log()
    _attributes(chance, log)
    _earlier_events(chance, log)
    for ds in DAYS:
        _day(chance, log, ds)
    _one_click_a_day_late(log)
    return log


def _attributes(chance: Chance, log: Log) -> None:
    start = _at("2024-03-01", 0)
    for user in USERS:
        if user not in UNDESCRIBED:
            known = {"country": chance.one(COUNTRIES), "age_band": chance.one(AGE_BANDS)}
            log.users.append({"user": user, "known_from": _text(start), **known})
    for ad in ADS:
        log.ads.append(described(ad, start, TOPICS[ad // 6 % 4]))
    # corrections: from then on the row says something else; what was known before stays what it was
    log.users.append(
        {"user": 1002, "known_from": _text(_at("2024-03-08", 12 * 60)), "country": "US", "age_band": "55+"}
    )
    log.ads.append(described(507, _at("2024-03-10", 10 * 60), "music"))


def _earlier_events(chance: Chance, log: Log) -> None:
    """Clicks before the first day, for two users in three: they arrive with the first day."""
    for user in USERS:
        if user in SILENT or user % 3 == 0:
            continue
        for _ in range(3):
            ads = tuple(ad for ad in ADS if brand_of(ad) in liked_brands(user))
            at = _at("2024-03-05", 8 * 60 + chance.below(36 * 60))
            _event(log, user, chance.one(ads), "click", at, at, chance.one(SURFACES), None)


def _day(chance: Chance, log: Log, ds: str) -> None:
    early = [(10, surface) for surface in ("feed", "story", "feed")]
    others = [(360 + chance.below(900), SURFACES[turn % 2]) for turn in range(2 * REQUESTS_A_DAY)]
    for turn, (minute, surface) in enumerate(sorted(early + others)):
        # the 10th has no 02:00 to 03:00; requests keep clear of it
        moment = _at(ds, minute) + timedelta(seconds=chance.below(60))
        user = None if ds == DAYS[0] and turn == 20 else USERS[chance.below(len(USERS))]
        _request(chance, log, ds, moment, str(surface), user)


def _request(chance: Chance, log: Log, ds: str, moment: datetime, surface: str, user: int | None) -> None:
    request = 90001 + len({row["request_id"] for row in log.impressions})
    device = chance.one(DEVICES)
    for slot, ad in enumerate(chance.some(ADS, 1 if user is None else ADS_A_REQUEST), 1):
        shown = {
            "impression_id": 700001 + len(log.impressions),
            "request_id": request,
            "user": "" if user is None else user,
            "ad": ad,
            "placement": surface,
            "slot": slot,
            "shown_at": _text(moment),
            "device": device,
            "format": format_of(int(str(ad)), slot),
        }
        log.impressions.append(shown)
        if user is not None and user not in SILENT:
            _respond(chance, log, ds, moment, shown)


def _respond(chance: Chance, log: Log, ds: str, moment: datetime, shown: dict) -> None:
    likes = brand_of(shown["ad"]) in liked_brands(shown["user"])
    if not chance.happens((LIKED if likes else OTHER) * ON_DEVICE[shown["device"]]):
        return
    click = moment if chance.happens(0.1) else moment + timedelta(seconds=5 + chance.below(50 * 60 - 5))
    _outcome(log, shown, "click", click, click + timedelta(seconds=2), None)
    if not chance.happens(0.5):
        return
    # one purchase comes after its twelve hours: it is in the log and makes no label
    beyond = ds == DAYS[2] and not any(row["kind"] == "buy" and row["at"][:10] >= ds for row in log.outcomes)
    # an hour more than it takes, since the 10th skips one
    wait = 840 if beyond else 51 + chance.below(660)
    bought = moment + timedelta(minutes=wait)
    arrived = bought + timedelta(minutes=chance.below(350))
    if _on_closed_day(bought, arrived):
        return
    _outcome(log, shown, "buy", bought, arrived, f"{5 + chance.below(4000) / 100:.2f}")


def _on_closed_day(bought: datetime, arrived: datetime) -> bool:
    """Whether a purchase would happen or arrive on the 9th, or after the log's end."""
    days = {bought.date().isoformat(), arrived.date().isoformat()}
    return "2024-03-09" in days or max(days) > DAYS[-1]


def _outcome(log: Log, shown: dict, kind: str, at: datetime, arrived: datetime, value: str | None) -> None:
    row = {"request_id": shown["request_id"], "user": shown["user"], "ad": shown["ad"], "kind": kind}
    log.outcomes.append({**row, "at": _text(at), "received_at": _text(arrived), "value": value or ""})
    _event(log, shown["user"], shown["ad"], kind, at, arrived, shown["placement"], shown["request_id"])


def _event(
    log: Log,
    user: int,
    ad: object,
    kind: str,
    at: datetime,
    arrived: datetime,
    surface: object,
    request: int | None,
) -> None:
    row = {"user": user, "ad": ad, "kind": kind, "at": _text(at), "placement": surface, "request_id": request}
    log.events.append({**row, "brand": brand_of(int(str(ad))), "received_at": _text(arrived)})


def _one_click_a_day_late(log: Log) -> None:
    """The first click event of the first day arrives on the second; its outcome came in time."""
    late = next(row for row in log.events if row["at"][:10] == DAYS[0])
    late["received_at"] = _text(datetime.fromisoformat(late["received_at"]) + timedelta(days=1))


def _at(ds: str, minutes: int) -> datetime:
    """The instant some minutes after local midnight, as shown by a clock of the zone."""
    start = datetime.fromisoformat(ds).replace(tzinfo=ZONE).astimezone(UTC)
    return (start + timedelta(minutes=minutes)).astimezone(ZONE)


def _text(moment: datetime) -> str:
    # through UTC: adding minutes to a zone's wall clock would not notice the change of its offset
    return moment.astimezone(ZONE).isoformat()


def write(folder: Path, log: Log) -> None:
    """The five files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("impressions", "outcomes", "users", "ads"):
        rows = getattr(log, name)
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    lines = [json.dumps(row) for row in log.events]
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "log", generate())
