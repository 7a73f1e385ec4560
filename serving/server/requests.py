"""What a scoring request may say, and what it means.

The body is strict JSON: NaN and infinities are refused wherever they stand. Ids stay
exact 64-bit integers; text becomes an id by the rule of the ingest (`features.ids`). A null, blank or absent value
is missing. Unknown keys and unknown names of the context are refused: they would be typing mistakes.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from features.days import micros
from features.errors import GemlineError
from features.ids import id_of
from features.transform.hashing import string_id
from features.worlds.schema import World

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_ADS = 1_000
MAX_USERS = 100
"""Each brings a history and a memory of its own."""
MAX_EVENTS = 1_000
"""Of a user on the day of the request."""
MAX_TEXT = 1_000
"""Characters of an id's text."""

INSTANT = "must be an ISO 8601 instant with a zone, as text"

Raw = int | str | None


class RequestError(GemlineError):
    """A request that cannot be read or that asks for what does not exist."""


def _raw_id(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str | None):
        raise ValueError("must be a 64-bit integer, text or null")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("is no 64-bit integer; give longer ids as text")
    if isinstance(value, str) and (len(value) > MAX_TEXT or not _encodable(value)):
        raise ValueError(f"must be valid Unicode of at most {MAX_TEXT} characters")
    return value


def _encodable(text: str) -> bool:
    """JSON may hold half a surrogate pair, which no bytes stand for."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _text_instant(value: Any) -> Any:
    if not isinstance(value, str | None):
        raise ValueError(INSTANT)
    return value


Id = Annotated[
    Raw,
    BeforeValidator(_raw_id),
    WithJsonSchema({"anyOf": [{"type": "integer", "format": "int64"}, {"type": "string"}, {"type": "null"}]}),
]


class Candidate(BaseModel):
    """An ad to score."""

    model_config = ConfigDict(extra="forbid")

    ad_id: Id = None
    user_id: Id = Field(default=None, description="where it is not the request's user")
    context: dict[str, Id] = Field(default={}, description="values of this ad; they win over those of the request")


class Happened(BaseModel):
    """Something that the request's user did on the request's own day."""

    model_config = ConfigDict(extra="forbid")

    event_type: str = Field(max_length=100, description="one of the world's event types")
    event_ts: Annotated[AwareDatetime, BeforeValidator(_text_instant)] = Field(description="before the request")
    fields: dict[str, Id] = Field(default={}, description="by the names of the world's history fields; `ad_id` first")


class ScoreRequest(BaseModel):
    """One surface, up to a thousand ads, of one user unless an ad names another."""

    model_config = ConfigDict(extra="forbid")

    vertical: str = Field(max_length=100, description="which model answers")
    surface: str | None = Field(
        default=None, max_length=100, description="may be left out where the vertical has only one"
    )
    user_id: Id = None
    ads: list[Candidate] = Field(min_length=1, max_length=MAX_ADS)
    context: dict[str, Id] = Field(
        default={},
        description="by the names of the world's `context`, without prefix; objective and format if they are features",
    )
    events: list[Happened] = Field(
        default=[],
        max_length=MAX_EVENTS,
        description="worlds with `as_of: request` only: all that the user did on the request's day and before it",
    )
    request_ts: Annotated[AwareDatetime | None, BeforeValidator(_text_instant)] = Field(
        default=None, description="replay worlds only: an instant from the world's now to the end of that day"
    )


KEYS = {"ads": Candidate.model_fields, "events": Happened.model_fields}
"""Known keys of what lists hold; others are the request's own."""


@dataclass(frozen=True)
class Event:
    """An event in the terms of the tables.

    Attributes:
        event_us: UTC microseconds.
        event_type: id of the type's name.
        fields: history field -> id, all of them.
    """

    event_us: int
    event_type: int
    fields: Mapping[str, int | None]


@dataclass(frozen=True)
class Asked:
    """A request in the terms of the tables: ids instead of text, one user and one context a candidate.

    Attributes:
        surface: name.
        user_ids: one a candidate, None when it is missing.
        ad_ids: one a candidate, None when it is missing.
        contexts: column of impressions -> id, one a candidate.
        user_id: the request's own user, None when it is missing.
        events: what that user did on the day of the request.
    """

    surface: str
    user_ids: tuple[int | None, ...]
    ad_ids: tuple[int | None, ...]
    contexts: tuple[Mapping[str, int | None], ...]
    user_id: int | None = None
    events: tuple[Event, ...] = ()

    @property
    def users(self) -> list[int]:
        """Distinct users, in order."""
        return list(dict.fromkeys(user for user in self.user_ids if user is not None))

    @property
    def ads(self) -> list[int]:
        """Distinct ads, in order."""
        return list(dict.fromkeys(ad for ad in self.ad_ids if ad is not None))

    def places_of(self) -> dict[int, list[int]]:
        """User -> places of its candidates."""
        found: dict[int, list[int]] = {}
        for place, user in enumerate(self.user_ids):
            if user is not None:
                found.setdefault(user, []).append(place)
        return found


def read_request(body: bytes | str) -> ScoreRequest:
    """A request from JSON.

    Raises:
        RequestError: it is no strict JSON, or a field does not fit; the sentence names the field.
    """
    try:
        data = json.loads(body, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is no strict JSON: {error}") from None
    return validated(data)


def validated(data: Any) -> ScoreRequest:
    """A request from plain values.

    Raises:
        RequestError: a field does not fit; the sentence names it.
    """
    try:
        return ScoreRequest.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the body"
        raise RequestError(f"{place}: {_sentence(first)}") from None


def _sentence(fault: "ErrorDetails") -> str:
    """What is wrong with a field, in words of a JSON document."""
    limits = fault.get("ctx", {})
    known = KEYS.get(str(fault["loc"][0]), {}) if len(fault["loc"]) > 1 else ScoreRequest.model_fields
    said = {
        "missing": "must be given",
        "extra_forbidden": f"is no key of a request; known: {_list(tuple(known))}",
        "list_type": "must be a list",
        "dict_type": "must be an object",
        "model_type": "must be an object",
        "string_type": "must be text",
        "string_too_long": f"must have at most {limits.get('max_length')} characters",
        "too_short": f"must have at least {limits.get('min_length')} item",
        "too_long": f"must have at most {limits.get('max_length')} items",
        "timezone_aware": INSTANT,
        "datetime_from_date_parsing": INSTANT,
        "datetime_parsing": INSTANT,
        "datetime_type": INSTANT,
    }
    return said.get(fault["type"], fault["msg"].removeprefix("Value error, "))


def resolved(request: ScoreRequest, world: World, surfaces: tuple[str, ...]) -> Asked:
    """What the request asks for.

    Args:
        request: as read.
        world: names the context.
        surfaces: those of the request's vertical.

    Raises:
        RequestError: the surface is unknown or must be named, a context name is unknown, or there are too many users.
    """
    if request.surface is None and len(surfaces) > 1:
        raise RequestError(f"surface: vertical {request.vertical} has {len(surfaces)}, name one of {_list(surfaces)}")
    surface = surfaces[0] if request.surface is None else request.surface
    if surface not in surfaces:
        raise RequestError(f"surface: vertical {request.vertical} has none of that name; known: {_list(surfaces)}")
    shared = _context(request.context, "context", world)
    asked = Asked(
        surface=surface,
        user_ids=tuple(
            _id(ad.user_id if "user_id" in ad.model_fields_set else request.user_id, "integers") for ad in request.ads
        ),
        ad_ids=tuple(_id(ad.ad_id, "integers") for ad in request.ads),
        contexts=tuple(
            {**shared, **_context(ad.context, f"ads.{place}.context", world)} for place, ad in enumerate(request.ads)
        ),
        user_id=_id(request.user_id, "integers"),
        events=_events(request, world),
    )
    if len(asked.users) > MAX_USERS:
        raise RequestError(f"ads: {len(asked.users)} users in one request, at most {MAX_USERS}; ask in parts")
    return asked


def _events(request: ScoreRequest, world: World) -> tuple[Event, ...]:
    if not request.events:
        return ()
    if world.history.as_of != "request":
        raise RequestError("events: histories of this world end with the day before; leave them out")
    if request.user_id is None:
        raise RequestError("events: nobody's; name the request's user_id")
    names = [field.name for field in world.history.fields]
    found = []
    for place, event in enumerate(request.events):
        if event.event_type not in world.event_types:
            raise RequestError(f"events.{place}.event_type: unknown; known: {_list(world.event_types)}")
        if unknown := sorted(set(event.fields) - set(names)):
            raise RequestError(f"events.{place}.fields: unknown names {unknown!a}; known: {_list(tuple(names))}")
        fields = {name: _id(event.fields.get(name), "integers") for name in names}
        found.append(Event(micros(event.event_ts), string_id(event.event_type), fields))
    return tuple(found)


def _context(given: Mapping[str, Raw], place: str, world: World) -> dict[str, int | None]:
    columns = world.request_columns
    if unknown := sorted(set(given) - set(columns)):
        raise RequestError(f"{place}: unknown names {unknown!a}; known: {_list(tuple(columns))}")
    texts = (*world.context_text, *world.impression_texts)
    return {columns[name]: _id(value, "text" if name in texts else "integers") for name, value in given.items()}


def _id(value: Raw, rule: Literal["integers", "text"]) -> int | None:
    """An id by one of two rules: what reads as an integer is one, or everything is text."""
    if rule == "text" and value is not None:
        value = str(value).strip(" ")
        return string_id(value) if value else None
    return id_of(value) if isinstance(value, str) else value


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number


def instant_of(given: datetime | None, now: datetime, end: datetime, *, replay: bool) -> datetime:
    """When the request happens.

    Args:
        given: the client's value.
        now: the world's present.
        end: first instant of the next day, exclusive end of what may be given.
        replay: whether the world's clock is replayed.

    Raises:
        RequestError: a value in a real world, or one outside of [now, end).
    """
    if given is None:
        return now
    if not replay:
        raise RequestError("request_ts: a real world uses the server's clock; leave it out")
    if not now <= given < end:
        raise RequestError(f"request_ts: must be from {now.isoformat()} to before {end.isoformat()}")
    return given
