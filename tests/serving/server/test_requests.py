"""Reading requests: exact ids, strict JSON, sentences that name the field."""

import json
import re
from typing import Any

import pytest

from features.transform.hashing import string_id
from features.worlds import load_world
from serving.server.requests import RequestError, read_request, resolved, validated
from tests.serving.server.served import WORLD

JOURNEY = load_world("complete_journey")


def request(**changes: Any) -> dict[str, Any]:
    return {"vertical": "feed_click", "user_id": 1, "ads": [{"ad_id": 10}], **changes}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**53 + 1, 2**53 + 1),
        (-(2**63), -(2**63)),
        (2**63 - 1, 2**63 - 1),
        ("9007199254740993", 2**53 + 1),
        (" 7 ", 7),
        ("007", string_id("007")),
        ("1,5", string_id("1,5")),
        ("NaN", string_id("NaN")),
        (str(2**63), string_id(str(2**63))),
        ("日本", string_id("日本")),
        ("", None),
        (None, None),
    ],
)
def test_an_id_is_read_by_the_rule_of_the_ingest(value: Any, expected: int | None) -> None:
    body = json.dumps(request(user_id=value, ads=[{"ad_id": value}], context={"device": value}))
    asked = resolved(read_request(body), WORLD, ("feed",))
    assert (asked.user_ids, asked.ad_ids) == ((expected,), (expected,))
    assert asked.contexts == ({"context_device": expected},)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"user_id": 2**63}, "user_id: is no 64-bit integer; give longer ids as text"),
        ({"user_id": 1.5}, "user_id: must be a 64-bit integer, text or null"),
        ({"user_id": True}, "user_id: must be a 64-bit integer, text or null"),
        ({"user_id": [1]}, "user_id: must be a 64-bit integer, text or null"),
        ({"user_id": "x" * 1001}, "user_id: must be valid Unicode of at most 1000 characters"),
        ({"user_id": "\ud800"}, "user_id: must be valid Unicode"),
        ({"ads": [{"ad_id": 1}, {"ad_id": 2.0}]}, "ads.1.ad_id: must be a 64-bit integer, text or null"),
        ({"ads": [{"ad_id": 1, "context": {"device": 0.5}}]}, "ads.0.context.device: must be a 64-bit integer"),
        ({"ads": []}, "ads: must have at least 1 item"),
        ({"ads": [{}] * 1001}, "ads: must have at most 1000 items"),
        ({"ads": None}, "ads: must be a list"),
        ({"vertical": None}, "vertical: must be text"),
        ({"context": 3}, "context: must be an object"),
        ({"request_ts": 1710150000}, "request_ts: must be an ISO 8601 instant with a zone, as text"),
        ({"request_ts": "2024-03-11T12:00:00"}, "request_ts: must be an ISO 8601 instant with a zone, as text"),
        ({"request_ts": "noon"}, "request_ts: must be an ISO 8601 instant with a zone, as text"),
        ({"request_ts": ""}, "request_ts: must be an ISO 8601 instant with a zone, as text"),
        ({"vertical": "x" * 101}, "vertical: must have at most 100 characters"),
        ({"ads": [3]}, "ads.0: must be an object"),
        (
            {"userid": 1},
            "userid: is no key of a request; known: vertical, surface, user_id, ads, context, events, request_ts",
        ),
        ({"ads": [{"ad": 1}]}, "ads.0.ad: is no key of a request; known: ad_id, user_id, context"),
    ],
)
def test_a_field_that_does_not_fit_is_named(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_request(json.dumps(request(**changes)))
    assert sentence in str(caught.value)
    # words of the library that reads it say nothing to a client
    assert not re.search("Input should|instance|pydantic|dictionary|model", str(caught.value))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
@pytest.mark.parametrize(
    "place", ['"user_id": %s', '"context": {"device": %s}', '"unknown": %s', '"more": {"deep": [%s]}']
)
def test_numbers_that_json_does_not_have_are_refused_anywhere(number: str, place: str) -> None:
    body = '{"vertical": "feed_click", "ads": [{"ad_id": 1}], ' + place % number + "}"
    with pytest.raises(RequestError, match="the body is no strict JSON"):
        read_request(body)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe\x00", b"[" * 100_000, b"[]", b"3", b'{"user_id": ' + b"1" * 5000 + b"}"]
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(RequestError):
        read_request(body)


def test_missing_keys_are_missing_values() -> None:
    asked = resolved(validated({"vertical": "feed_click", "ads": [{}]}), WORLD, ("feed",))
    assert (asked.user_ids, asked.ad_ids, asked.contexts) == ((None,), (None,), ({},))
    assert (asked.users, asked.ads, asked.places_of()) == ([], [], {})


def test_the_surface_may_be_left_out_only_where_it_is_clear() -> None:
    assert resolved(validated(request()), WORLD, ("feed",)).surface == "feed"
    assert resolved(validated(request(surface="story")), WORLD, ("feed", "story")).surface == "story"
    with pytest.raises(RequestError, match="surface: vertical feed_click has 2, name one of feed, story"):
        resolved(validated(request()), WORLD, ("feed", "story"))
    with pytest.raises(RequestError, match="surface: vertical feed_click has none of that name; known: feed"):
        resolved(validated(request(surface="story")), WORLD, ("feed",))


def test_unknown_context_is_refused_with_the_known_names() -> None:
    with pytest.raises(RequestError, match=r"context: unknown names \['devise'\]; known: device"):
        resolved(validated(request(context={"devise": 1})), WORLD, ("feed",))
    with pytest.raises(RequestError, match=r"ads.0.context: unknown names \['store'\]"):
        resolved(validated(request(ads=[{"context": {"store": 1}}])), WORLD, ("feed",))


@pytest.mark.parametrize("code", ["1", 1, " 1 "])
def test_codes_that_a_source_hashes_are_hashed_here_too(code: Any) -> None:
    """`display` of the shipped log is xxhash64 of its text, also where that is a digit; a store is a number."""
    given = validated(request(context={"display": code, "store": "367", "mailer": ""}))
    asked = resolved(given, JOURNEY, ("mailer",))
    assert asked.contexts[0] == {
        "context_display": string_id("1"),
        "context_store": 367,
        "context_mailer": None,
    }


def test_an_ad_may_name_another_user_or_none() -> None:
    ads = [{"ad_id": 1}, {"ad_id": 2, "user_id": 9}, {"ad_id": 3, "user_id": None}, {"ad_id": 4}]
    asked = resolved(validated(request(user_id=7, ads=ads)), WORLD, ("feed",))
    assert (asked.user_ids, asked.ad_ids) == ((7, 9, None, 7), (1, 2, 3, 4))
    assert (asked.users, asked.places_of()) == ([7, 9], {7: [0, 3], 9: [1]})


def test_too_many_users_are_refused() -> None:
    ads = [{"ad_id": 1, "user_id": user} for user in range(101)]
    assert len(resolved(validated(request(ads=[*ads[:100], *ads[:100]])), WORLD, ("feed",)).users) == 100
    with pytest.raises(RequestError, match="ads: 101 users in one request, at most 100; ask in parts"):
        resolved(validated(request(ads=ads)), WORLD, ("feed",))


AT = "2024-03-08T14:00:00Z"
CARRYING = WORLD.model_copy(update={"history": WORLD.history.model_copy(update={"as_of": "request"})})


def happened(**changes: Any) -> dict[str, Any]:
    return {"event_type": "click", "event_ts": AT, "fields": {"ad_id": "11", "brand": 5}, **changes}


def test_events_of_the_day_are_carried_where_the_world_says_so() -> None:
    asked = resolved(validated(request(events=[happened(), happened(fields={})])), CARRYING, ("feed",))
    assert [dict(event.fields) for event in asked.events] == [
        {"ad_id": 11, "brand": 5},
        {"ad_id": None, "brand": None},
    ]
    assert {(event.event_us, event.event_type) for event in asked.events} == {
        (1_709_906_400_000_000, string_id("click"))
    }
    assert asked.user_id == 1


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"event_type": "stare"}, "events.0.event_type: unknown; known: click, buy"),
        ({"event_ts": "2024-03-08 14:00"}, "events.0.event_ts: must be an ISO 8601 instant with a zone"),
        ({"event_ts": None}, "events.0.event_ts: must be an ISO 8601 instant with a zone"),
        ({"fields": {"colour": 1}}, "events.0.fields: unknown names ['colour']; known: ad_id, brand"),
        ({"fields": {"ad_id": 0.5}}, "events.0.fields.ad_id: must be a 64-bit integer"),
        ({"ad": 1}, "events.0.ad: is no key of a request; known: event_type, event_ts, fields"),
    ],
)
def test_events_that_do_not_fit_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RequestError, match=re.escape(sentence)):
        resolved(validated(request(events=[happened(**changes)])), CARRYING, ("feed",))


def test_events_need_a_user_and_a_world_that_wants_them() -> None:
    with pytest.raises(RequestError, match="events: nobody's"):
        resolved(validated(request(user_id=None, events=[happened()])), CARRYING, ("feed",))
    with pytest.raises(RequestError, match="events: histories of this world end with the day before"):
        resolved(validated(request(events=[happened()])), WORLD, ("feed",))
