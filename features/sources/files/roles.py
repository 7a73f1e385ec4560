"""What the columns of a log seem to mean, by their names and values: a guess that a person looks over."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from features.sources.files.heads import FLOATS
from features.sources.files.peek import NUMBER, Peek, distinct
from features.sources.files.values import NO, YES

WORDS = {
    "impression_id": {"impression", "imp", "impid"},
    "request_id": {"request", "req", "session", "query", "auction", "search", "basket", "pageview", "visit"},
    "user_id": {"user", "uid", "userid", "member", "customer", "visitor", "household", "person", "account", "cookie",
                "client", "viewer", "who"},
    "ad_id": {"ad", "adid", "aid", "item", "itemid", "iid", "product", "creative", "sku", "article", "movie", "banner",
              "offer", "doc", "document", "video", "song", "track", "listing", "campaign", "what"},
    "position": {"position", "slot", "rank", "pos"},
    "surface": {"surface", "placement", "zone", "inventory", "place"},
    "event_type": {"event", "action", "type", "kind", "behavior", "behaviour", "activity"},
    "value": {"value", "revenue", "amount", "price", "bid"},
}  # fmt: skip
FILLERS = {"id", "ids", "key", "no", "number", "nr", "hash", "uuid", "of", "the", "name", "shown", "list", "slate"}
HAPPENED = {"click", "clicked", "tap", "conversion", "converted", "purchase", "purchased", "buy", "bought", "install",
            "installed", "like", "liked", "order", "ordered", "cart", "label", "target", "viewed", "hit"}  # fmt: skip
SHOWN = {"impression", "imp", "show", "shown", "display", "exposure", "view", "serve", "served"}
RATED = {"rating", "stars", "grade"}
TIMED = {"time", "timestamp", "ts", "at", "date", "day", "when", "stamp", "datetime", "epoch", "clock"}
ARRIVED = {"received", "arrived", "arrival", "logged", "ingested"}
KNOWN = {"known", "valid", "updated", "created", "from", "since"}
MOST_TYPES = 40
ISO = re.compile(r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?( ?(Z|[+-]\d{2}(:?\d{2})?))?)?$")
EPOCHS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
CLOCKS = {"": "", " HH:mm": " %H:%M", " HH:mm:ss": " %H:%M:%S"}
DATES = {"d/M/yy": "%d/%m/%y", "M/d/yy": "%m/%d/%y", "d/M/yyyy": "%d/%m/%Y", "M/d/yyyy": "%m/%d/%Y",
         "d.M.yy": "%d.%m.%y", "d.M.yyyy": "%d.%m.%Y", "yyyy/M/d": "%Y/%m/%d", "yyyyMMdd": "%Y%m%d"}  # fmt: skip
PATTERNS = {date + clock: day + time for clock, time in CLOCKS.items() for date, day in DATES.items()}


@dataclass
class Roles:
    """What one kind of file seems to hold.

    Attributes:
        peek: the sample.
        named: canonical column -> raw column.
        times: raw column -> spelling, times of any meaning.
        labels: event type -> label, as a world file says it.
        slate: raw columns with the ads of a slate.
        unclear: questions for a person.
    """

    peek: Peek
    named: dict[str, str] = field(default_factory=dict)
    times: dict[str, str] = field(default_factory=dict)
    labels: dict[str, dict] = field(default_factory=dict)
    slate: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)

    @property
    def used(self) -> set[str]:
        """Raw columns that have a meaning of their own."""
        of_labels = {raw for label in self.labels.values() for raw in label.values() if isinstance(raw, str)}
        return {*self.named.values(), *self.times, *self.slate, *of_labels}

    def moment(self, avoid: set[str] = frozenset()) -> str | None:  # type: ignore[assignment]
        """The raw column that says when a row happened."""
        apart = {label.get("at") for label in self.labels.values()}
        left = [raw for raw in self.times if raw not in apart and not words(raw) & (ARRIVED | avoid)]
        return left[0] if left else None

    def instants(self, raw: str) -> list[datetime]:
        """The times of a column, naive ones as UTC."""
        return [read_time(value, self.times[raw]) for value in self.peek.values(raw)]


def roles(peek: Peek) -> Roles:
    """Guess what the columns of a sample mean."""
    found = Roles(peek)
    for raw in peek.columns:
        spelling = _spelling(raw, peek.values(raw), found.unclear)
        if spelling is not None:
            found.times[raw] = spelling
    for canonical, meant in WORDS.items():
        name = _named(meant, [raw for raw in peek.columns if raw not in found.used], peek)
        if name is not None and _fits(canonical, name, peek):
            found.named[canonical] = name
            if canonical.endswith("_id") and peek.types.get(name) in FLOATS:
                found.unclear.append(f"{peek.file}: column '{name}' is floating point; write it as int64 or text")
    ads = found.named.get("ad_id")
    if ads is not None and is_list(peek.values(ads)):
        found.slate = [ads]
    _find_labels(found)
    return found


def words(name: str) -> set[str]:
    """The words of a column's name; `userId`, `user_id` and `user_id:token` have the same."""
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.split(":")[0]).lower()
    return set(re.findall(r"[a-z]+", plain))


def is_list(values: Sequence[str]) -> bool:
    """Whether the texts are lists."""
    listed = [value for value in values if value.startswith("[") or "|" in value]
    return len(listed) > len(values) / 2


def numbers(values: Sequence[str]) -> list[float]:
    """The texts as numbers; empty if one is none."""
    return [float(value) for value in values] if values and all(NUMBER.match(value) for value in values) else []


def vector_width(values: Sequence[str]) -> int | None:
    """The one length of lists of numbers with a point; None of other columns."""
    try:
        lists = [json.loads(value) if value.startswith("[") else value.split("|") for value in values]
        widths = {len(entry) for entry in lists}
        plain = [str(number) for entry in lists for number in entry]
    except (ValueError, TypeError):
        return None
    fits = len(widths) == 1 and max(widths) > 1 and bool(numbers(plain)) and any("." in number for number in plain)
    return widths.pop() if fits else None


def read_time(text: str, spelling: str) -> datetime:
    """A time as `spelling` says; naive ones are UTC."""
    if spelling in EPOCHS:
        return datetime.fromtimestamp(float(text) / EPOCHS[spelling], UTC)
    plain = re.sub(r"(\.\d{6})\d+", r"\1", text)
    at = datetime.fromisoformat(plain) if spelling == "iso" else datetime.strptime(text, PATTERNS[spelling])  # noqa: DTZ007
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _named(meant: set[str], left: Sequence[str], peek: Peek) -> str | None:
    """The column whose name says one of the meant words and little else."""
    stems = {raw: _stems(raw, meant) for raw in left if peek.values(raw)}
    fits = [raw for raw, said in stems.items() if said & meant and said <= meant | FILLERS]
    return min(fits, key=lambda raw: len(words(raw) - {"id"})) if fits else None


def _stems(raw: str, meant: set[str]) -> set[str]:
    """Words, those that are not meant without the s of a plural."""
    return {word if word in meant else word.removesuffix("s") for word in words(raw)}


def _fits(canonical: str, raw: str, peek: Peek) -> bool:
    values = peek.values(raw)
    if canonical in ("event_type", "surface"):
        return len(distinct(values)) <= MOST_TYPES and not numbers(values)
    if canonical in ("position", "value"):
        return bool(numbers(values))
    return True


def _find_labels(found: Roles) -> None:
    for raw in found.peek.columns:
        values, said = found.peek.values(raw), words(raw)
        hint = sorted(said & HAPPENED)
        if raw in found.times and hint and said & TIMED:
            found.labels[hint[0]] = {"at": raw}
        elif raw in found.used:
            continue
        elif hint and found.slate:
            found.labels[hint[0]] = {"column": raw, "holds": found.slate[0]}
        elif hint and values and {value.lower() for value in values} <= {*YES, *NO}:
            found.labels.setdefault(hint[0], {"column": raw})
        elif said & RATED and (rated := numbers(values)):
            least = round(0.8 * max(rated), 2)
            found.labels["liked"] = {"column": raw, "at_least": least}
            found.unclear.append(f"{found.peek.file}: is a '{raw}' of {least:g} or more what `liked` should mean?")


def _spelling(raw: str, values: Sequence[str], unclear: list[str]) -> str | None:
    """How the times of a column are written; None where it holds none."""
    if not values:
        return None
    if all(ISO.match(value) for value in values):
        return "iso"
    counts = numbers(values)
    if counts and words(raw) & TIMED:
        for unit, scale in EPOCHS.items():
            if 3e8 * scale < min(counts) and max(counts) < 5e9 * scale:
                return unit
    patterns = [pattern for pattern in PATTERNS if _reads(values, pattern)] if not counts or words(raw) & TIMED else []
    if len(patterns) > 1:
        unclear.append(f"column '{raw}' may be {' or '.join(patterns)}: no value tells; say which under `times`")
    return patterns[0] if patterns else None


def _reads(values: Sequence[str], pattern: str) -> bool:
    try:
        for value in values:
            read_time(value, pattern)
    except ValueError:
        return False
    return True
