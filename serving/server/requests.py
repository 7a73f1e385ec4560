"""What a scoring request may say, and what it means.

The body is strict JSON: NaN and infinities are refused wherever they stand, also in keys that are ignored. Ids stay
exact 64-bit integers; text becomes an id by the rule of the ingest (`features.ids`). A null, blank or absent value
is missing. Unknown keys are ignored, unknown names of the context are not: they would be typing mistakes.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, NoReturn

from pydantic import AwareDatetime, BaseModel, BeforeValidator, Field, ValidationError, WithJsonSchema

from features.errors import GemlineError
from features.ids import id_of
from features.transform.hashing import string_id
from features.worlds.schema import World

MAX_ADS = 1_000
MAX_TEXT = 1_000
"""Characters of an id's text."""

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
        raise ValueError("must be an ISO 8601 instant with a zone, as text")
    return value


Id = Annotated[
    Raw,
    BeforeValidator(_raw_id),
    WithJsonSchema({"anyOf": [{"type": "integer", "format": "int64"}, {"type": "string"}, {"type": "null"}]}),
]


class Candidate(BaseModel):
    """An ad to score."""

    ad_id: Id = None
    user_id: Id = Field(default=None, description="where it is not the request's user")
    context: dict[str, Id] = Field(default={}, description="values of this ad; they win over those of the request")


class ScoreRequest(BaseModel):
    """One surface, up to a thousand ads, of one user unless an ad names another."""

    vertical: str = Field(max_length=100, description="which model answers")
    surface: str | None = Field(
        default=None, max_length=100, description="may be left out where the vertical has only one"
    )
    user_id: Id = None
    ads: list[Candidate] = Field(min_length=1, max_length=MAX_ADS)
    context: dict[str, Id] = Field(default={}, description="by the names of the world's `context`, without prefix")
    request_ts: Annotated[AwareDatetime | None, BeforeValidator(_text_instant)] = Field(
        default=None, description="replay worlds only: an instant from the world's now to the end of that day"
    )


@dataclass(frozen=True)
class Asked:
    """One user's part of a request in the terms of the tables: ids instead of text, one context an ad.

    Attributes:
        places: of the candidates in the request.
        surface: name.
        user_id: None when it is missing.
        ad_ids: one a candidate.
        contexts: column `context_...` -> id, one a candidate.
    """

    places: tuple[int, ...]
    surface: str
    user_id: int | None
    ad_ids: tuple[int | None, ...]
    contexts: tuple[Mapping[str, int | None], ...]


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
        raise RequestError(f"{place}: {first['msg'].removeprefix('Value error, ')}") from None


def resolved(request: ScoreRequest, world: World, surfaces: tuple[str, ...]) -> list[Asked]:
    """What the request asks for, a part a user.

    Args:
        request: as read.
        world: names the context.
        surfaces: those of the request's vertical.

    Raises:
        RequestError: the surface is unknown or must be named, or a context name is unknown.
    """
    if request.surface is None and len(surfaces) > 1:
        raise RequestError(f"surface: vertical {request.vertical} has {len(surfaces)}, name one of {_list(surfaces)}")
    surface = surfaces[0] if request.surface is None else request.surface
    if surface not in surfaces:
        raise RequestError(f"surface: vertical {request.vertical} has none of that name; known: {_list(surfaces)}")
    shared = _context(request.context, "context", world)
    places: dict[int | None, list[int]] = {}
    for place, ad in enumerate(request.ads):
        user = ad.user_id if "user_id" in ad.model_fields_set else request.user_id
        places.setdefault(_id(user, "integers"), []).append(place)
    contexts = [{**shared, **_context(ad.context, f"ads.{at}.context", world)} for at, ad in enumerate(request.ads)]
    return [
        Asked(
            places=tuple(own),
            surface=surface,
            user_id=user_id,
            ad_ids=tuple(_id(request.ads[place].ad_id, "integers") for place in own),
            contexts=tuple(contexts[place] for place in own),
        )
        for user_id, own in places.items()
    ]


def _context(given: Mapping[str, Raw], place: str, world: World) -> dict[str, int | None]:
    if unknown := sorted(set(given) - set(world.context)):
        raise RequestError(f"{place}: unknown names {unknown!a}; known: {_list(world.context)}")
    return {
        f"context_{name}": _id(value, "text" if name in world.context_text else "integers")
        for name, value in given.items()
    }


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
