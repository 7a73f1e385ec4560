"""The HTTP face: statuses, strict JSON both ways, order of keys, health and metrics (B22, B23, B24)."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from features import clock
from features.home import Home
from features.store.repo import RECORD
from serving.server.app import create_app
from serving.server.scorer import Scorer
from tests.serving.server.served import FEED, NOW, WORLD, Model, release, remember, scorer

BODY = {
    "vertical": FEED,
    "surface": "feed",
    "user_id": 1,
    "ads": [{"ad_id": 10, "context": {"device": "phone"}}, {"ad_id": 12}, {"ad_id": None}],
    "context": {"device": 7},
    "request_ts": "2024-03-11T12:00:00-04:00",
}


@pytest.fixture
def client(served: Scorer) -> Iterator[TestClient]:
    with TestClient(create_app(served), raise_server_exceptions=True) as client:
        yield client


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in an answer")

    return json.loads(text, parse_constant=refuse)


def reordered(value: Any, order: Any) -> Any:
    if isinstance(value, dict):
        return {key: reordered(value[key], order) for key in order(value)}
    return [reordered(item, order) for item in value] if isinstance(value, list) else value


def test_an_answer_carries_package_and_generation(client: TestClient) -> None:
    answered = client.post("/score", json=BODY)
    assert answered.status_code == 200
    answer = strict(answered.text)
    assert {key: answer[key] for key in ("world", "vertical", "surface", "digest", "model_digest", "generation")} == {
        "world": "tiny",
        "vertical": FEED,
        "surface": "feed",
        "digest": "pkg-a",
        "model_digest": "model-of-pkg-a",
        "generation": "gen-a",
    }
    assert answer["request_ts"] == "2024-03-11T16:00:00+00:00"
    assert [ad["ad_id"] for ad in answer["scores"]] == [10, 12, None]


def test_order_of_keys_changes_nothing(client: TestClient) -> None:
    expected = client.post("/score", json=BODY).json()
    for order in (reversed, sorted, list):
        assert client.post("/score", json=reordered(BODY, order)).json() == expected


def test_ids_come_back_as_they_were_asked(client: TestClient) -> None:
    ids = [2**53 + 1, "9007199254740993", "shoe", None, -(2**63)]
    answer = client.post("/score", json={**BODY, "ads": [{"ad_id": item} for item in ids]}).json()
    assert [ad["ad_id"] for ad in answer["scores"]] == ids
    assert answer["scores"][0]["scores"] == answer["scores"][1]["scores"]


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (422, {**BODY, "user_id": 2**64}, "user_id"),
        (422, {**BODY, "userid": 1}, "userid: is no key of a request; known: vertical"),
        (422, {**BODY, "context": {"devise": 1}}, "known: device"),
        (422, {**BODY, "context": {"\ud800": 1}}, "unknown names"),
        (422, {**BODY, "context": {"\ud800": 1.5}}, "must be a 64-bit integer"),
        (422, {**BODY, "surface": "story"}, "known: feed"),
        (422, {**BODY, "request_ts": "2024-03-14T00:00:00Z"}, "request_ts: must be from"),
        (404, {**BODY, "vertical": "moon"}, "known: feed_click, story_click"),
        (404, {**BODY, "vertical": "story_click", "surface": "story"}, "materialize tiny/story_click/package"),
    ],
)
def test_a_fault_is_one_sentence(client: TestClient, status: int, body: dict[str, Any], sentence: str) -> None:
    answered = client.post("/score", content=json.dumps(body))
    assert (answered.status_code, list(answered.json())) == (status, ["error"])
    assert sentence in answered.json()["error"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_no_number_outside_of_json_is_a_server_error(client: TestClient, number: str) -> None:
    text = json.dumps(BODY)
    for place in ('"user_id": 1', '"ad_id": 12', '"device": 7'):
        answered = client.post("/score", content=text.replace(place, f"{place.split(':')[0]}: {number}"))
        assert answered.status_code == 422
        assert number in strict(answered.text)["error"] or "finite" in strict(answered.text)["error"]


def test_a_model_without_a_finite_number_answers_strict_json(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Model.score
    monkeypatch.setattr(Model, "score", lambda *given: whole(*given) * [[1.0], [float("nan")], [float("inf")]])
    answered = client.post("/score", json=BODY)
    assert answered.status_code == 200
    assert [ad["replaced"] for ad in strict(answered.text)["scores"]] == [[], ["click"], ["click"]]


def test_a_failing_model_is_a_plain_error(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*given: Any) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(Model, "score", failing)
    answered = client.post("/score", json=BODY)
    assert (answered.status_code, "secret" in answered.text) == (500, False)


def test_a_feature_store_of_other_declarations_is_a_conflict(client: TestClient, served: Scorer) -> None:
    assert client.post("/score", json=BODY).status_code == 200
    (served.home.registry / RECORD).write_text('{"digest": "other"}')
    answered = client.post("/score", json=BODY)
    assert answered.status_code == 409
    assert "was applied from other declarations" in answered.json()["error"]


def test_too_long_a_body_is_refused(client: TestClient) -> None:
    assert client.post("/score", content=b" " * (8 * 2**20 + 1)).status_code == 413


def test_health_says_what_is_live(home: Home) -> None:
    with TestClient(create_app(scorer(home))) as client:
        assert client.get("/health").status_code == 503
        release(home, "2024-03-08", "pkg-a", "gen-a")
        found = client.get("/health")
        assert found.status_code == 200
        assert found.json() == {
            "world": "tiny",
            "synthetic": True,
            "status": "ok",
            "vectors": {"gen-a": NOW.replace(microsecond=0).isoformat()},
            "verticals": {
                FEED: {
                    "ds": "2024-03-08",
                    "digest": "pkg-a",
                    "model_digest": "model-of-pkg-a",
                    "generation": "gen-a",
                },
                "story_click": None,
            },
            "faults": {},
        }
        release(home, "2024-03-09", "pkg-b", "gen-a", broken=True)
        client.app.state.scorer.live.refresh(FEED)  # type: ignore[attr-defined]
        broken = client.get("/health")
        assert (broken.status_code, broken.json()["faults"]) == (200, {FEED: "package pkg-b is broken"})
        assert broken.json()["status"] == "degraded"
        assert broken.json()["verticals"][FEED]["digest"] == "pkg-a"


def test_metrics_count_requests_flags_and_sources(client: TestClient) -> None:
    client.post("/score", json=BODY)
    client.post("/score", json={**BODY, "vertical": "moon"})
    client.post("/score", content=b"{")
    text = client.get("/metrics").text
    for line in (
        'gemline_score_requests_total{status="200",vertical="feed_click"} 1.0',
        'gemline_score_requests_total{status="404",vertical="unknown"} 1.0',
        'gemline_score_requests_total{status="422",vertical="unknown"} 1.0',
        'gemline_score_seconds_count{vertical="feed_click"} 1.0',
        'gemline_scored_ads_total{known="hit",vertical="feed_click"} 1.0',
        'gemline_scored_ads_total{known="fallback_ad",vertical="feed_click"} 2.0',
        'gemline_vector_sources_total{source="exact",vertical="feed_click"} 1.0',
        'gemline_vector_sources_total{source="user",vertical="feed_click"} 2.0',
        'gemline_missing_features_total{reason="absent",view="ad_stats"} 1.0',
        "gemline_generation_mismatches_total 0.0",
    ):
        assert line in text.splitlines()


def test_the_request_is_described(client: TestClient) -> None:
    described = client.get("/openapi.json").json()["paths"]["/score"]["post"]
    assert "user_id" in described["requestBody"]["content"]["application/json"]["schema"]["properties"]
    for page in ("/docs", "/redoc"):
        assert client.get(page).status_code == 404  # they would load scripts from elsewhere


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nothing", 404), ("GET", "/score", 405), ("POST", "/health", 405)]
)
def test_a_path_or_method_that_is_not_there_is_one_sentence(
    client: TestClient, method: str, path: str, status: int
) -> None:
    answered = client.request(method, path)
    assert (answered.status_code, list(answered.json())) == (status, ["error"])
    assert f"{method} {path}: not " in answered.json()["error"].replace("method ", "")
    assert "there are POST /score" in answered.json()["error"]


def test_health_is_down_without_features(served: Scorer) -> None:
    with TestClient(create_app(served)) as client:
        assert client.get("/health").json()["status"] == "ok"
        (served.home.registry / RECORD).unlink()
        found = client.get("/health")
        assert (found.status_code, found.json()["status"]) == (503, "down")
        assert "was never applied; materialize the asset tiny/feature_store" in found.json()["faults"]["features"]


def test_health_is_degraded_without_vectors_that_hold(served: Scorer, monkeypatch: pytest.MonkeyPatch) -> None:
    with TestClient(create_app(served)) as client:

        def fault() -> str:
            found = client.get("/health")
            assert (found.status_code, found.json()["status"]) == (200, "degraded")
            return str(found.json()["faults"]["vectors of gen-a"])

        monkeypatch.setattr(clock, "now", lambda *_: NOW + WORLD.precompute.life)
        assert "has expired; materialize tiny/fm_outputs and tiny/solaris_vectors" in fault()
        monkeypatch.undo()
        (served.home.root / "cache" / "vectors.db").unlink()
        assert "the cache holds neither memories nor vectors" in fault()
        memory = [(1, "2024-03-10", 1, 1, np.zeros(4, dtype=np.float32))]
        served.cache.remember("gen-a", memory, 5)
        assert "the cache holds no run of vectors" in fault()
        remember(served.home, "gen-a", 0.1)
        assert client.get("/health").json()["status"] == "ok"


def test_no_more_requests_compute_at_once_than_there_are_cores(served: Scorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.server.app.cores", lambda: 2)
    whole, lock = Scorer.score, threading.Lock()
    running, most = 0, 0

    def counted(*given: Any) -> Any:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.05)
        try:
            return whole(*given)
        finally:
            with lock:
                running -= 1

    monkeypatch.setattr(Scorer, "score", counted)
    with TestClient(create_app(served)) as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.post("/score", json=BODY).status_code, range(16)))
    assert (answers, most) == ([200] * 16, 2)
