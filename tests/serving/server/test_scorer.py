"""Scoring: known and unknown ids side by side, exact ids, what a model is given, time, faults of a model (B22, B23)."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from features import clock
from features.days import micros
from features.errors import GemlineError
from features.home import Home
from features.ids import id_of
from features.transform.hashing import rows_of, string_id, table_salt
from serving.server.answers import Answer, ScoredAd
from serving.server.live import NotServed
from serving.server.requests import RequestError, validated
from serving.server.scorer import Scorer
from tests.serving.server.served import BIG, END, FEED, NOW, WORLD, Model, put, release, scorer, world_with


def ask(scorer: Scorer, user: Any, ads: Sequence[Any], vertical: str = FEED, **more: Any) -> Answer:
    given = {"vertical": vertical, "user_id": user, "ads": [{"ad_id": ad} for ad in ads], **more}
    return scorer.score(validated(given))


def model(scorer: Scorer) -> Model:
    return scorer.live.snapshot(FEED).model  # type: ignore[return-value]


def click(ad: ScoredAd) -> float:
    probability = ad.scores["click"]
    assert probability is not None and 0 < probability < 1
    return probability


def test_known_and_unknown_ids_are_scored_in_one_request(served: Scorer) -> None:
    """A known pair, a pair without a vector of its own, a new ad, and none at all."""
    answer = ask(served, 1, [12, 10, 11, None, 10])
    assert [ad.ad_id for ad in answer.scores] == [12, 10, 11, None, 10]
    assert [ad.known for ad in answer.scores] == ["fallback_ad", "hit", "hit", "fallback_ad", "hit"]
    assert [ad.source for ad in answer.scores] == ["user", "exact", "user", "user", "exact"]
    assert all(math.isfinite(click(ad)) for ad in answer.scores)
    assert answer.missing["ad_stats"] == {"absent": 1}


@pytest.mark.parametrize("user", [99, None, "somebody new"])
def test_a_new_user_falls_back(served: Scorer, user: Any) -> None:
    answer = ask(served, user, [10, 12])
    assert [ad.known for ad in answer.scores] == ["fallback_user", "fallback_both"]
    assert [ad.source for ad in answer.scores] == ["none", "none"]
    assert all(math.isfinite(click(ad)) for ad in answer.scores)


def test_a_known_pair_scores_the_same_alone(served: Scorer) -> None:
    mixed = ask(served, 1, [12, 11, None, 10, "new"]).scores
    for place, ad in ((1, 11), (3, 10), (0, 12)):
        assert click(ask(served, 1, [ad]).scores[0]) == pytest.approx(click(mixed[place]), abs=1e-6)


def test_five_kinds_of_pairs_in_one_request(served: Scorer) -> None:
    """B22: known, new user, new ad, both new, and a known pair whose vector was never computed."""
    pairs = [(1, 10), ("new", 10), (1, 12), ("new", 12), (BIG, 11)]
    ads = [{"ad_id": ad, "user_id": user} for user, ad in pairs]
    scores = served.score(validated({"vertical": FEED, "user_id": 99, "ads": ads})).scores
    assert [ad.known for ad in scores] == ["hit", "fallback_user", "fallback_ad", "fallback_both", "hit"]
    assert [ad.source for ad in scores] == ["exact", "none", "user", "none", "none"]
    for (user, ad), together in zip(pairs, scores, strict=True):
        assert click(ask(served, user, [ad]).scores[0]) == pytest.approx(click(together), abs=1e-6)


def test_all_users_of_a_request_are_scored_in_one_pass(served: Scorer) -> None:
    ads = [{"ad_id": 10, "user_id": user} for user in (*range(40), 1, None, 3)]
    model(served).seen.clear()
    answer = served.score(validated({"vertical": FEED, "ads": ads}))
    assert len(answer.scores) == len(ads)
    assert len(model(served).seen) == 1
    assert answer.missing["user_stats"] == {"absent": 39}
    assert click(answer.scores[40]) == click(answer.scores[1])


def test_a_pair_without_any_vector_is_scored_without_one(served: Scorer) -> None:
    answer = ask(served, BIG, [10])
    assert (answer.scores[0].known, answer.scores[0].source) == ("hit", "none")
    _, transfer = model(served).seen[-1]
    assert transfer.source.tolist() == [0] and not transfer.vector.any() and len(transfer.memory) == 0


def test_unknown_is_what_training_gives_for_missing(served: Scorer) -> None:
    ask(served, 99, [12])
    batch, _ = model(served).seen[-1]
    width = len(model(served).schema.dense)
    assert batch.dense[0, :width].tolist() == [0.0] * width
    assert batch.dense[0, width:].tolist() == [1.0] * width
    assert {name: int(batch.categorical[name]) for name in ("country", "age_band", "brand", "topic")} == {
        "country": 0,
        "age_band": 0,
        "brand": 0,
        "topic": 0,
    }
    assert int(batch.categorical["ad_id"]) > 0
    assert batch.history_lengths.tolist() == [0]


def test_ids_stay_exact(served: Scorer) -> None:
    """2**53 + 1 has features, its neighbour in floating point has none; text of digits is the integer."""
    known = {user: ask(served, user, [10]).scores[0].known for user in (BIG, str(BIG), BIG - 1, BIG + 1)}
    assert list(known.values()) == ["hit", "hit", "fallback_user", "fallback_user"]
    ask(served, "somebody", [10])
    batch, _ = model(served).seen[-1]
    row = rows_of(np.array([string_id("somebody")]), np.array([False]), WORLD.tables["user"], table_salt("user"))
    assert batch.categorical["user_id"].tolist() == row.tolist()


def test_ids_of_any_size_and_sign_meet_the_rows_that_training_gives_them(served: Scorer) -> None:
    """Case B16: integers and text of a request against the rule of the ingest and the transform's own rows."""
    rows = WORLD.tables["ad"]
    asked = [-1, 0, rows - 1, rows, 2**31, 2**32 + 5, 2**63 - 1, -(2**63), "0005", "5", 5]
    ask(served, 1, asked)
    batch, _ = model(served).seen[-1]
    ids = np.array([id_of(str(item)) for item in asked])
    expected = rows_of(ids, np.zeros(len(ids), dtype=bool), rows, table_salt("ad"))
    assert batch.categorical["ad_id"].tolist() == expected.tolist()
    assert ((expected >= 1) & (expected < rows)).all()
    assert ids[-1] == ids[-2] != ids[-3]
    for refused in (2**63, -(2**63) - 1):
        with pytest.raises(RequestError, match="no 64-bit integer"):
            ask(served, 1, [refused])


def test_what_describes_an_ad_reaches_the_model(served: Scorer, home: Home) -> None:
    put(home, "ad_attributes", 12, END - timedelta(hours=1), {"tags": [7, -(2**63)], "image": [0.5, -1.0, 0.0, 2.0]})
    given = {"ads": [{"ad_id": 12, "context": {"format": " video "}}, {"ad_id": 99}], "user_id": 1, "vertical": FEED}
    served.score(validated(given))
    batch, _ = model(served).seen[-1]
    tag, shape = WORLD.tables["tag"], WORLD.tables["format"]
    both = rows_of(np.array([7, -(2**63)]), np.zeros(2, dtype=bool), tag, table_salt("tag"))
    assert batch.bags["tags"].tolist() == [*both, 0] and batch.bag_lengths["tags"].tolist() == [2, 1]
    assert batch.content["image"].tolist() == [[0.5, -1.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]]
    video = rows_of(np.array([string_id("video")]), np.array([False]), shape, table_salt("format"))
    assert batch.categorical["format"].tolist() == [*video, 0]


def test_ids_that_no_training_row_had_are_counted(served: Scorer) -> None:
    """Case B27."""
    ask(served, 1, [10, 11])
    text = served.metrics.text().decode()
    assert 'gemline_untrained_ids_total{feature="ad_id",vertical="feed_click"} 2.0' in text
    assert 'feature="hour"' not in text


def test_history_and_memory_reach_the_model(served: Scorer) -> None:
    ask(served, 1, [10, 11])
    batch, transfer = model(served).seen[-1]
    assert batch.history_lengths.tolist() == [2] and batch.history_row.tolist() == [0, 0]  # type: ignore[union-attr]
    seconds = (NOW - END).total_seconds()
    assert batch.history_age.tolist() == pytest.approx([seconds + 9 * 3600, seconds + 5 * 3600])
    assert batch.history_type.tolist() == [2, 1]
    assert batch.history["brand"].tolist()[0] == 0
    assert transfer.memory_lengths.tolist() == [2]
    assert transfer.memory_age.tolist() == pytest.approx([seconds + 20 * 3600, seconds + 3600])
    assert transfer.source.tolist() == [2, 1]
    assert transfer.vector[:, 0].tolist() == pytest.approx([0.1, 0.05])


def test_the_hour_and_the_day_are_those_of_the_worlds_zone(served: Scorer) -> None:
    answer = ask(served, 1, [10], request_ts="2024-03-11T23:30:00-04:00")
    assert answer.request_ts == "2024-03-12T03:30:00+00:00"
    batch, _ = model(served).seen[-1]
    for name, value in (("hour", 23), ("weekday", 0)):
        row = rows_of(np.array([value]), np.array([False]), WORLD.tables[name], table_salt(name))
        assert batch.categorical[name].tolist() == row.tolist()


def test_context_of_the_request_and_of_an_ad(served: Scorer) -> None:
    given = {
        "vertical": FEED,
        "user_id": 1,
        "context": {"device": "phone"},
        "ads": [{"ad_id": 10}, {"ad_id": 10, "context": {"device": 7}}, {"ad_id": 10, "context": {"device": None}}],
    }
    served.score(validated(given))
    batch, _ = model(served).seen[-1]
    ids, missing = np.array([string_id("phone"), 7, 0]), np.array([False, False, True])
    expected = rows_of(ids, missing, WORLD.tables["device"], table_salt("device"))
    assert batch.categorical["context_device"].tolist() == expected.tolist()


def test_time_may_run_to_the_end_of_the_next_day(served: Scorer) -> None:
    assert ask(served, 1, [10]).request_ts == NOW.isoformat()
    assert ask(served, 1, [10], request_ts=NOW.isoformat()).scores
    last = END + timedelta(days=1, microseconds=-1)
    late = ask(served, 1, [10], request_ts=last.isoformat())
    assert late.request_ts == last.isoformat()
    for outside in (NOW - timedelta(microseconds=1), END + timedelta(days=1)):
        with pytest.raises(RequestError, match=r"request_ts: must be from 2024-03-11T10:00:00.000001\+00:00 to before"):
            ask(served, 1, [10], request_ts=outside.isoformat())
    for far in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        with pytest.raises(RequestError, match="request_ts: must be from"):
            ask(served, 1, [10], request_ts=far)


def test_a_real_world_keeps_its_own_time(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    release(home, "2024-03-09", "pkg-a", "gen-a")
    served = scorer(home)
    served.world = world_with(clock="real")
    with pytest.raises(RequestError, match="request_ts: a real world uses the server's clock"):
        ask(served, 1, [10], request_ts=NOW.isoformat())
    monkeypatch.setattr(clock, "now", lambda world, home: NOW)
    assert ask(served, 1, [10]).request_ts == NOW.isoformat()


def test_stale_features_are_missing_and_counted(served: Scorer) -> None:
    """B12: an expired feature scores as one that was never there, and is counted."""
    absent = ask(served, 1, [13, 10])
    assert absent.missing["ad_stats"] == {"absent": 1}
    put(served.home, "ad_stats", 13, END - timedelta(days=2), {"ad_events_1d": 5.0})
    answer = ask(served, 1, [13, 10])
    assert answer.scores[0].known == "fallback_ad"
    assert answer.missing["ad_stats"] == {"stale": 1}
    assert answer.scores == absent.scores
    assert 'gemline_missing_features_total{reason="stale",view="ad_stats"} 1.0' in served.metrics.text().decode()


def test_what_is_answered_is_the_product_along_the_funnel(home: Home) -> None:
    release(home, "2024-03-09", "pkg-s", "gen-a", "story_click")
    served = scorer(home)
    scores = ask(served, 1, [10, 11, 12], "story_click").scores
    network: Model = served.live.snapshot("story_click").model  # type: ignore[assignment]
    given = network.score(*network.seen[0])
    for ad, (clicked, bought) in zip(scores, given.tolist(), strict=True):
        assert ad.scores == {"click": clicked, "buy": clicked * bought}
        assert clicked * bought < clicked


def test_a_score_that_is_not_finite_is_replaced_alone(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    release(home, "2024-03-09", "pkg-a", "gen-a")
    release(home, "2024-03-09", "pkg-s", "gen-a", "story_click")
    served = scorer(home)
    whole, sound = Model.score, ask(served, 1, [10, 11, 12])

    def faulty(self: Model, batch: Any, transfer: Any) -> np.ndarray:
        numbers = whole(self, batch, transfer)
        numbers[1, 0], numbers[0, -1] = np.nan, np.inf if numbers.shape[1] > 1 else numbers[0, -1]
        return numbers

    monkeypatch.setattr(Model, "score", faulty)
    first, second, third = ask(served, 1, [10, 11, 12]).scores
    assert (second.scores, second.replaced) == ({"click": None}, ["click"])
    assert [first, third] == [sound.scores[0], sound.scores[2]]
    first, second, third = ask(served, 1, [10, 11, 12], "story_click").scores
    # what follows a click cannot be told without it
    assert (second.scores, second.replaced) == ({"click": None, "buy": None}, ["click", "buy"])
    assert (first.scores["buy"], first.replaced) == (None, ["buy"])
    assert third.replaced == []
    assert 'gemline_replaced_scores_total{task="click",vertical="feed_click"} 1.0' in served.metrics.text().decode()


def test_what_cannot_be_answered_says_why(home: Home) -> None:
    served = scorer(home)
    with pytest.raises(NotServed, match="has no vertical 'moon'; known: feed_click, story_click"):
        ask(served, 1, [10], "moon")
    with pytest.raises(NotServed, match="vertical feed_click has no live release; materialize tiny/feed_click/package"):
        ask(served, 1, [10])
    release(home, "2024-03-09", "pkg-a", "gen-a")
    assert ask(served, 1, [10]).digest == "pkg-a"
    (home.online / clock.RECORD).unlink()
    with pytest.raises(GemlineError, match="no day is in the online store yet"):
        ask(served, 1, [10])


def test_knowledge_of_another_generation_is_refused_and_counted(
    served: Scorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from serving.server import scorer as module

    proper = module.knowledge_of
    monkeypatch.setattr(module, "knowledge_of", lambda *given: replace(proper(*given), generation="gen-b"))
    with pytest.raises(GemlineError, match="vectors of gen-b for a package of gen-a"):
        ask(served, 1, [10])
    assert "gemline_generation_mismatches_total 1.0" in served.metrics.text().decode()


def test_requests_between_two_runs_get_the_run_of_their_time(served: Scorer) -> None:
    """The newest run is later than the request's instant: it must not be used for it."""
    cache = served.cache
    cache.publish_run("gen-a", micros(NOW) + 10, [("feed", 1, 10, np.full(4, 0.9))])
    ask(served, 1, [10])
    _, transfer = model(served).seen[-1]
    assert transfer.vector[0, 0].item() == pytest.approx(0.1)
