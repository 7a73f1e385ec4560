"""Which file of an undescribed log is which table, and the mapping of each: the tables' half of `propose`."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from features.errors import WorldError
from features.sources.files.peek import distinct
from features.sources.files.roles import ARRIVED, KNOWN, SHOWN, Roles, is_list, vector_width, words

MOST_VALUES = 2000
"""A column with more different values in the sample is an id or a text, and no feature of its own."""
MOST_OWN = 0.9
"""So is one with nearly as many values as rows."""


@dataclass
class Draft:
    """What is known so far, while tables are assigned.

    Attributes:
        mappings: table -> its mapping.
        features: canonical column -> different values in the sample, of context and attributes.
        many: those that are lists of ids.
        vectors: attribute -> width.
        events: event types, in order.
        open: questions.
        left: file -> columns that are no features: of one value, of too many, or measured.
    """

    mappings: dict[str, dict[str, Any]]
    features: dict[str, int]
    many: list[str]
    vectors: dict[str, int]
    events: list[str]
    open: list[str]
    left: dict[str, list[str]] = field(default_factory=dict)

    @property
    def given(self) -> set[str]:
        """Canonical columns of impressions."""
        return set(self.mappings["impressions"]["columns"])


def draft_tables(known: Sequence[Roles]) -> tuple[Draft, Roles]:
    """Give each file its tables.

    Returns:
        The mappings, and the file whose rows are impressions.

    Raises:
        WorldError: no file can be impressions.
    """
    draft = Draft({}, {}, [], {}, [], [question for entry in known for question in entry.unclear])
    impressions = _impressions(known)
    _entities(draft, [entry for entry in known if entry is not impressions])
    _map_impressions(draft, impressions, known)
    _map_behaviour(draft, impressions, known)
    return draft, impressions


def surfaces_of(entry: Roles) -> list[str]:
    """Values of the surface, as the file spells them; empty where it names none."""
    return distinct(entry.peek.values(entry.named["surface"])) if "surface" in entry.named else []


def slug(text: str) -> str:
    """A name that a world file may give: lower case, digits and underscores, a letter first."""
    plain = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text.split(":")[0]).lower()).strip("_")
    return plain if re.match(r"[a-z]", plain) else f"v_{plain}"


# ---- which file is which table


def _is_stream(entry: Roles) -> bool:
    return "event_type" in entry.named and "ad_id" in entry.named


def _is_entity(entry: Roles, key: str, other: str) -> bool:
    """Rows describe one thing: no other key, and few rows for each."""
    if key not in entry.named or {other, "request_id", "impression_id"} & entry.named.keys() or entry.labels:
        return False
    values = entry.peek.values(entry.named[key])
    described = len(distinct(values)) > 0.6 * len(values)
    return described and (entry.moment() is None or entry.moment(KNOWN) is None or key == "user_id")


def _impressions(known: Sequence[Roles]) -> Roles:
    """The file whose rows are impressions: an ad and a time, and not a stream of other events."""
    fits = [entry for entry in known if "ad_id" in entry.named and entry.moment() is not None]
    fits = [entry for entry in fits if not _is_entity(entry, "ad_id", "user_id")]
    plain = [entry for entry in fits if not _is_stream(entry)]
    shown = [entry for entry in fits if _is_stream(entry) and _types(entry, shown=True)]
    chosen = sorted(plain, key=_likeness, reverse=True) + shown
    if not chosen:
        seen = "; ".join(f"{entry.peek.file}: {', '.join(entry.peek.columns)}" for entry in known)
        raise WorldError(
            f"no file looks like impressions, with an ad and a time in each row ({seen}); rename the columns, or "
            "write the world file by hand: docs/worlds.md"
        )
    return chosen[0]


def _likeness(entry: Roles) -> int:
    named = words(Path(entry.peek.file).stem) & {*SHOWN, "impressions", "requests", "log"}
    return 2 * bool(named) + len({"position", "surface", "impression_id", "request_id"} & entry.named.keys())


def _types(entry: Roles, shown: bool) -> list[str]:
    """Event types of a stream that are impressions, or the others."""
    values = distinct(entry.peek.values(entry.named["event_type"]))
    return [value for value in values if bool(words(value) & SHOWN) == shown]


# ---- mappings


def _file(entry: Roles) -> dict[str, Any]:
    return {"file": entry.peek.file} | entry.peek.options


def _times(columns: dict[str, Any], entry: Roles) -> dict[str, Any]:
    """Spellings other than ISO 8601."""
    odd = {name: entry.times[raw] for name, raw in columns.items() if raw in entry.times}
    odd = {name: spelling for name, spelling in odd.items() if spelling != "iso"}
    return {"times": odd} if odd else {}


def _entities(draft: Draft, known: Iterable[Roles]) -> None:
    for entry in known:
        for table, key, other in (("users", "user_id", "ad_id"), ("ads", "ad_id", "user_id")):
            if table in draft.mappings or not _is_entity(entry, key, other):
                continue
            columns: dict[str, Any] = {key: entry.named[key]}
            since = entry.moment()
            columns |= {"known_from": since} if since is not None else {}
            columns |= _features(draft, entry, [*entry.peek.columns], set(columns.values()) | set(entry.times), "")
            draft.mappings[table] = _file(entry) | {"columns": columns} | _times(columns, entry)


def _features(draft: Draft, entry: Roles, raws: Iterable[str], used: set[str], prefix: str) -> dict[str, str]:
    """Canonical name -> raw column of what can be a feature; lists and vectors only of users and ads."""
    found = {}
    for raw in raws:
        values = entry.peek.values(raw)
        name = prefix + slug(raw)
        if raw in used or not values or name in draft.features or name in draft.vectors:
            continue
        width = vector_width(values)
        several = len(distinct(values))
        if width is not None and not prefix:
            draft.vectors[name] = width
        elif is_list(values) and not prefix:
            items = {item.strip(' "[]') for value in values for item in re.split(r"[|,]", value)}
            draft.many.append(name)
            draft.features[name] = len(items)
        elif not 1 < several <= MOST_VALUES or several > MOST_OWN * max(len(values), 50) or _is_measured(values):
            draft.left.setdefault(entry.peek.file, []).append(raw)
            continue
        else:
            draft.features[name] = several
        found[name] = raw
    return found


def _is_measured(values: Iterable[str]) -> bool:
    """Numbers with a point: no categories."""
    return any(re.fullmatch(r"-?\d+\.\d+", value) for value in values)


def _map_impressions(draft: Draft, entry: Roles, known: Sequence[Roles]) -> None:
    names = ("impression_id", "request_id", "user_id", "ad_id", "surface", "position")
    columns: dict[str, Any] = {name: entry.named[name] for name in names if name in entry.named}
    moment = entry.moment()
    if "request_id" not in columns and "user_id" not in columns:
        columns["request_id"] = moment
        draft.open.append(
            f"{entry.peek.file} has no request and no user: rows of one '{moment}' are taken as one request"
        )
    columns["request_ts"] = moment
    mapping = _file(entry) | ({"slate": entry.slate} if entry.slate else {})
    if _is_stream(entry):
        mapping["where"] = {entry.named["event_type"]: _types(entry, shown=True)}
    texts = {str(raw) for raw in columns.values()} | entry.used
    described = {slug(raw) for table in ("users", "ads") for raw in draft.mappings.get(table, {}).get("columns", {})}
    left = [raw for raw in entry.peek.columns if slug(raw) not in described]
    columns |= _features(draft, entry, left, texts, "context_")
    if "surface" in columns and (values := surfaces_of(entry)) != (slugs := [slug(value) for value in values]):
        mapping["recode"] = {"surface": dict(zip(values, slugs, strict=True))}
    draft.mappings = {"impressions": mapping | {"columns": columns} | _times(columns, entry)} | draft.mappings


def _map_behaviour(draft: Draft, impressions: Roles, known: Sequence[Roles]) -> None:
    """Outcomes and events: of label columns, or of streams."""
    streams = [entry for entry in known if _is_stream(entry) and entry.moment() is not None]
    if impressions.labels:
        draft.events = list(impressions.labels)
        draft.mappings["outcomes"] = _labelled(draft, impressions, ("request_id", "user_id", "ad_id"))
        if "user_id" in impressions.named:
            draft.mappings["events"] = _labelled(draft, impressions, ("user_id", "ad_id", "surface"))
    for entry in streams:
        said = words(Path(entry.peek.file).stem)
        tables = ["events"] if said & {"events", "history", "behavior", "behaviour", "activity"} else []
        tables = ["outcomes"] if said & {"outcomes", "outcome", "conversions", "clicks"} else tables
        for table in tables or ["outcomes", "events"]:
            if table not in draft.mappings and (table == "outcomes" or "user_id" in entry.named):
                draft.mappings[table] = _streamed(draft, entry, table)
    if "outcomes" not in draft.mappings:
        draft.open.append("no file says what was clicked or bought: map `outcomes`, event_types and tasks")
        draft.events = ["click"]
        columns = {"ad_id": impressions.named["ad_id"], "event_ts": impressions.moment()}
        draft.mappings["outcomes"] = _file(impressions) | {"columns": columns, "labels": {"click": "FILL_IN"}}
    if "events" not in draft.mappings:
        draft.open.append(
            "no users, or no behaviour of theirs: `events` is missing, and its days would be empty and closed; "
            "docs/open_bandit.md shows what to do without users"
        )


def _labelled(draft: Draft, entry: Roles, names: Sequence[str]) -> dict[str, Any]:
    columns = {name: draft.mappings["impressions"]["columns"][name] for name in names if name in draft.given}
    columns["event_ts"] = entry.moment()
    labels = {name: label["column"] if set(label) == {"column"} else label for name, label in entry.labels.items()}
    mapping = _file(entry) | ({"slate": entry.slate} if entry.slate else {})
    at = {name: entry.times[label["at"]] for name, label in entry.labels.items() if "at" in label}
    spelled = {spelling for spelling in [entry.times[columns["event_ts"]], *at.values()]}
    if len(spelled) > 1:
        draft.open.append(f"{entry.peek.file}: times are written in several ways ({', '.join(sorted(spelled))})")
    return mapping | {"columns": columns, "labels": labels} | _times(columns, entry)


def _streamed(draft: Draft, entry: Roles, table: str) -> dict[str, Any]:
    own = ("request_id", "user_id", "ad_id", "event_type", "value") + (("surface",) if table == "events" else ())
    columns: dict[str, Any] = {name: entry.named[name] for name in own if name in entry.named}
    columns["event_ts"] = entry.moment()
    arrived = [raw for raw in entry.times if words(raw) & ARRIVED]
    columns |= {"arrival_ts": arrived[0]} if arrived else {}
    mapping = _file(entry)
    kinds = _types(entry, shown=False)
    if kinds != distinct(entry.peek.values(entry.named["event_type"])):
        mapping["where"] = {entry.named["event_type"]: kinds}
    slugs = {kind: slug(kind) for kind in kinds if slug(kind) != kind}
    if slugs:
        mapping["recode"] = {"event_type": slugs}
    draft.events += [slug(kind) for kind in kinds if slug(kind) not in draft.events]
    return mapping | {"columns": columns} | _times(columns, entry)
