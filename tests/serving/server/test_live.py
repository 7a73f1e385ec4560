"""Following the live pointer: no answer mixes two packages, and a package that cannot be loaded changes nothing."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from features.home import Home
from serving import releases
from serving.server.live import NotServed
from serving.server.requests import validated
from serving.server.scorer import Scorer
from tests.serving.server.served import FEED, load, release, remember, scorer

PAIR = validated({"vertical": FEED, "user_id": 1, "ads": [{"ad_id": 10}, {"ad_id": 12}]})
Facts = tuple[str, str, str, tuple[float | None, ...]]


def facts(served: Scorer) -> Facts:
    answer = served.score(PAIR)
    return answer.digest, answer.model_digest, answer.generation, tuple(ad.scores["click"] for ad in answer.scores)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "did not happen within 20 s"
        time.sleep(0.01)


def test_answers_during_a_switch_belong_to_one_package(home: Home) -> None:
    remember(home, "gen-b", -0.7)
    release(home, "2024-03-08", "pkg-a", "gen-a")
    served = scorer(home)
    before = facts(served)
    collected: list[list[Facts]] = [[] for _ in range(4)]
    faults: list[Exception] = []
    stop = threading.Event()

    def stream(mine: list[Facts]) -> None:
        try:
            while not stop.is_set():
                mine.append(facts(served))
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=stream, args=(mine,)) for mine in collected]
    for thread in threads:
        thread.start()
    until(lambda: all(collected))
    release(home, "2024-03-09", "pkg-b", "gen-b")
    until(lambda: bool(faults) or all(mine[-1][0] == "pkg-b" for mine in collected))
    stop.set()
    for thread in threads:
        thread.join()
    assert not faults
    after = facts(served)
    assert (before[:3], after[:3]) == (("pkg-a", "model-of-pkg-a", "gen-a"), ("pkg-b", "model-of-pkg-b", "gen-b"))
    assert before[3] != after[3]
    for mine in collected:
        switch = next(place for place, seen in enumerate(mine) if seen[0] == "pkg-b")
        assert set(mine[:switch]) == {before}
        assert set(mine[switch:]) == {after}
    assert "gemline_generation_mismatches_total 0.0" in served.metrics.text().decode()


def test_requests_do_not_wait_for_a_new_package(home: Home) -> None:
    release(home, "2024-03-08", "pkg-a", "gen-a")
    gate = threading.Event()

    def slow(folder, digest):  # type: ignore[no-untyped-def]
        if digest == "pkg-b":
            assert gate.wait(20)
        return load(folder, digest)

    served = Scorer(scorer(home).world, home, slow)
    assert facts(served)[0] == "pkg-a"
    release(home, "2024-03-09", "pkg-b", "gen-a")
    assert [facts(served)[0] for _ in range(3)] == ["pkg-a"] * 3
    gate.set()
    until(lambda: facts(served)[0] == "pkg-b")


def test_a_package_that_cannot_be_loaded_keeps_the_old_one(home: Home) -> None:
    release(home, "2024-03-08", "pkg-a", "gen-a")
    served = scorer(home)
    before = facts(served)
    release(home, "2024-03-09", "pkg-b", "gen-b", broken=True)
    served.live.refresh(FEED)
    assert facts(served) == before
    snapshot, fault = served.live.states()[FEED]
    assert snapshot is not None and snapshot.digest == "pkg-a"
    assert fault == "package pkg-b is broken"
    releases.rollback(home.releases, FEED, "broken")
    served.live.refresh(FEED)
    assert facts(served) == before
    assert served.live.states()[FEED][1] is None


def test_a_lost_pointer_keeps_the_old_package(home: Home) -> None:
    release(home, "2024-03-08", "pkg-a", "gen-a")
    served = scorer(home)
    before = facts(served)
    (home.releases / FEED / "live.json").unlink()
    served.live.refresh(FEED)
    assert facts(served) == before
    assert "is gone" in str(served.live.states()[FEED][1])


def test_a_package_of_another_vertical_is_refused(home: Home) -> None:
    release(home, "2024-03-08", "pkg-a", "gen-a")
    manifest = home.root / "packages" / FEED / "2024-03-08" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"vertical": "feed_click"', '"vertical": "story_click"'))
    with pytest.raises(NotServed, match=r"no live release \(the live package of feed_click is one of tiny/story_click"):
        facts(scorer(home))


def test_a_rollback_is_followed(home: Home) -> None:
    release(home, "2024-03-08", "pkg-a", "gen-a")
    served = scorer(home)
    before = facts(served)
    release(home, "2024-03-09", "pkg-b", "gen-b")
    served.live.refresh(FEED)
    assert facts(served)[0] == "pkg-b"
    releases.rollback(home.releases, FEED, "worse")
    served.live.refresh(FEED)
    assert facts(served) == before


def test_a_pointer_that_may_not_be_read_keeps_the_old_package(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    release(home, "2024-03-08", "pkg-a", "gen-a")
    served = scorer(home)
    before = facts(served)
    pointer, whole, read = home.releases / FEED / "live.json", Path.stat, Path.read_bytes

    def refused(call: Callable[..., Any]) -> Callable[..., Any]:
        def asked(path: Path, *given: Any, **more: Any) -> Any:
            if path == pointer:
                raise PermissionError(13, "Permission denied")
            return call(path, *given, **more)

        return asked

    monkeypatch.setattr(Path, "stat", refused(whole))
    monkeypatch.setattr(Path, "read_bytes", refused(read))
    served.live.refresh(FEED)
    assert facts(served) == before
    assert served.live.states()[FEED][1] == f"{pointer} cannot be read (Permission denied); let whoever serves read it"
    with pytest.raises(NotServed, match="let whoever serves read it"):
        facts(scorer(home))
