"""Candidates know nothing of later days; the trainer sees exactly what the cache would have answered."""

import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from features.clock import run_instant
from features.days import day_bounds, day_of, day_range, micros, micros_of, shift
from features.home import Home
from features.solaris import (
    candidates,
    candidates_of,
    expected_train_rows,
    runs_by_day,
    train_vectors,
    train_vectors_of,
)
from features.tables import Tables
from features.worlds import World, load_world
from serving.solaris.cache import VectorCache
from tests.features.frames import EVENTS, IMPRESSIONS, frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.assets
DAYS = day_range("2024-03-07", "2024-03-12")
ZONE = "America/New_York"
G, H = "gen-000000000000", "gen-111111111111"
EXAMPLES = (
    "impression_id BIGINT, user_id BIGINT, ad_id BIGINT, surface STRING, request_us BIGINT, keep_rate DOUBLE, "
    "hour BIGINT, ds STRING"
)
VECTORS = (
    "run_us BIGINT, fm_generation STRING, surface STRING, user_id BIGINT, ad_id BIGINT, vector ARRAY<FLOAT>, ds STRING"
)


@pytest.fixture(scope="module")
def world() -> World:
    return load_world("tiny")


# ------------------------------------------------------------------------ candidates


def shown(ad: int, ds: str, surface: str = "feed") -> dict[str, Any]:
    at = f"{ds} 17:00:00"
    return {"impression_id": 1, "ad_id": ad, "surface": surface, "request_ts": at, "keep_rate": 1.0, "ds": ds}


def event(user: int | None, ad: int | None, ds: str, at: str = "") -> dict[str, Any]:
    return {"user_id": user, "ad_id": ad, "event_ts": at or f"{ds} 17:00:00", "event_type": "click", "ds": ds}


def chosen(
    spark: "SparkSession",
    world: World,
    impressions: Sequence[dict[str, Any]],
    events: Sequence[dict[str, Any]],
    days: Sequence[str],
) -> dict[tuple[str, str, int], list[tuple[int, float]]]:
    """Ads and priorities, best first, of each (ds, surface, user)."""
    rows = candidates_of(frame(spark, IMPRESSIONS, impressions), frame(spark, EVENTS, events), world, days).collect()
    found: dict[tuple[str, str, int], list[tuple[int, float]]] = {}
    for row in rows:
        found.setdefault((row["ds"], row["surface"], row["user_id"]), []).append((row["ad_id"], row["priority"]))
    return {key: sorted(ads, key=lambda entry: -entry[1]) for key, ads in found.items()}


def test_own_ads_and_popular_ones_within_the_budget(spark: "SparkSession", world: World) -> None:
    today, before = DAYS[2], DAYS[1]
    impressions = [shown(ad, before) for ad in range(10, 20)] + [shown(30, before, "story")]
    events = [event(user, 10, today) for user in (2, 3, 4)]
    events += [event(1, 19, today), event(1, 18, before), event(1, 99, today), event(5, None, today)]
    events += [event(None, 17, today)]
    found = chosen(spark, world, impressions, events, [today])
    # 6 events of ads shown on feed: 3 of 10, one each of 17, 18 and 19; 99 was shown nowhere
    assert found[today, "feed", 1] == [
        (19, pytest.approx(1 + 1 / 6)),
        (18, pytest.approx(2 / 3 + 1 / 6)),
        (10, pytest.approx(3 / 6)),
        (17, pytest.approx(1 / 6)),
        (11, 0.0),
    ]
    assert [ad for ad, _ in found[today, "feed", 5]] == [10, 17, 18, 19, 11]
    assert found[today, "story", 1] == [(30, 0.0)]
    assert set(found) == {(today, surface, user) for surface in ("feed", "story") for user in (1, 2, 3, 4, 5)}
    assert {len(ads) for (_, surface, _), ads in found.items() if surface == "feed"} == {5}


def random_log(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    draw = random.Random(seed)
    impressions = [shown(draw.randrange(12), draw.choice(DAYS), draw.choice(["feed", "story"])) for _ in range(60)]
    events = []
    for _ in range(80):
        stamp = datetime(2024, 3, 2, tzinfo=UTC) + timedelta(seconds=draw.randrange(11 * 86_400))
        arrived = max(shift(day_of(stamp, ZONE), draw.choice([-1, 0, 0, 0, 1, 3])), DAYS[0])
        if arrived <= DAYS[-1]:
            user, ad = draw.choice([None, 1, 2, 3, 4, 2**53 + 1]), draw.choice([None, *range(14)])
            events.append(event(user, ad, arrived, f"{stamp:%F %T}"))
    return impressions, events


def by_definition(
    impressions: Sequence[dict[str, Any]], events: Sequence[dict[str, Any]], world: World, ds: str
) -> dict[tuple[str, str, int], list[tuple[int, float]]]:
    """Every ad of every user, one event at a time."""
    active, budget = world.precompute.active_days, world.precompute.ads_per_user
    first = shift(ds, 1 - active)
    heard = [
        (row, (datetime.fromisoformat(ds) - datetime.fromisoformat(day)).days)
        for row in events
        if first <= row["ds"] <= ds
        and (day := day_of(datetime.fromisoformat(row["event_ts"]).replace(tzinfo=UTC), ZONE)) <= ds
    ]
    found = {}
    for surface in world.vertical_surfaces:
        times = Counter(row["ad_id"] for row in impressions if row["surface"] == surface and first <= row["ds"] <= ds)
        counts = Counter(row["ad_id"] for row, _ in heard if row["ad_id"] in times)
        for user in {row["user_id"] for row, _ in heard} - {None}:
            own: Counter[int] = Counter()
            for row, age in heard:
                if row["user_id"] == user:
                    own[row["ad_id"]] += max(active - age, 1)
            priority = {ad: own[ad] / active + counts[ad] / (sum(counts.values()) or 1) for ad in times}
            best = sorted(times, key=lambda ad: (-priority[ad], -times[ad], ad))[:budget]
            if best:
                found[ds, surface, user] = [(ad, priority[ad]) for ad in best]
    return found


def test_random_logs_equal_the_definition_and_a_range_its_days(spark: "SparkSession", world: World) -> None:
    impressions, events = random_log(3)
    asked = [DAYS[0], DAYS[2], DAYS[3], DAYS[5]]
    found = chosen(spark, world, impressions, events, asked)
    expected: dict[tuple[str, str, int], list[tuple[int, float]]] = {}
    for ds in asked:
        expected |= by_definition(impressions, events, world, ds)
    assert found.keys() == expected.keys()
    for key, ads in expected.items():
        assert sorted(found[key]) == [(ad, pytest.approx(value)) for ad, value in sorted(ads)], key
    single = chosen(spark, world, impressions, events, [DAYS[3]])
    assert single == {key: ads for key, ads in found.items() if key[0] == DAYS[3]}


def test_nothing_of_later_days_changes_a_candidate(spark: "SparkSession", world: World) -> None:
    impressions, events = random_log(4)
    asked = DAYS[3]
    later = [shown(77, DAYS[4]), *(shown(78, DAYS[4], "story") for _ in range(9))]
    noise = [event(user, ad, DAYS[4]) for user in (1, 50) for ad in (0, 77)] * 5
    # arrived by the day, but stamped after its end: it has not happened yet
    noise += [event(60, 1, asked, f"{DAYS[4]} 05:00:00")] * 5
    past = [row for row in impressions if row["ds"] <= asked], [row for row in events if row["ds"] <= asked]
    plain = chosen(spark, world, *past, [asked])
    assert plain and chosen(spark, world, [*impressions, *later], [*events, *noise], [asked]) == plain


def test_candidates_are_read_and_published_with_the_instant_of_their_run(
    spark: "SparkSession", world: World, tmp_path: Path
) -> None:
    days = DAYS[:3]
    world = world.model_copy(update={"closed_days": (days[0], *world.closed_days)})
    tables = Tables(spark, world, Home(tmp_path))
    tables.publish("impressions", frame(spark, IMPRESSIONS, [{**shown(10, days[1]), "user_id": 1}]), days)
    tables.publish("events", frame(spark, EVENTS, [event(1, 10, ds) for ds in days[1:]]), days)
    results = tables.publish("solaris_candidates", candidates(spark, world, days, tables), days)
    # nobody is active yet: an ordinary day without rows
    assert [(result.verdict, result.rows) for result in results] == [("closed", 0), ("passed", 1), ("passed", 1)]
    again = tables.publish("solaris_candidates", candidates(spark, world, days[2:], tables), days[2:])
    assert not again[0].changed
    rows = tables.read("solaris_candidates", days).selectExpr("ds", "unix_micros(run_ts) AS us").collect()
    assert {row["ds"]: row["us"] for row in rows} == {ds: micros(run_instant(world, ds)) for ds in days[1:]}


# --------------------------------------------------------------------- train vectors


def stamped(made: "DataFrame", column: str) -> "DataFrame":
    from pyspark.sql import functions as F

    return made.withColumn(f"{column}_ts", F.timestamp_micros(f"{column}_us")).drop(f"{column}_us")


def runs_of(world: World) -> list[tuple[str, int, str]]:
    """G runs on the 7th, 8th and 11th (nothing stands on the 11th after 48 hours), H on the 8th only."""
    plan = [(G, DAYS[0]), (G, DAYS[1]), (G, DAYS[4]), (H, DAYS[1])]
    return [(generation, micros(run_instant(world, ds)), ds) for generation, ds in plan]


def drawn_vectors(world: World, draw: random.Random) -> list[dict[str, Any]]:
    rows = []
    for generation, run_us, ds in runs_of(world):
        for surface in ("feed", "story"):
            for user in (0, 1, -2, 2**53 + 1):
                ads: list[int | None] = [ad for ad in (0, -1, 10, 11) if draw.random() < 0.6]
                for ad in [*ads, *([None] if draw.random() < 0.7 else [])]:
                    vector = [float(np.float32(draw.uniform(-1, 1))) for _ in range(world.transfer.width)]
                    head = {"run_us": run_us, "fm_generation": generation, "surface": surface, "ds": ds}
                    rows.append({**head, "user_id": user, "ad_id": ad, "vector": vector})
    return rows


def drawn_examples(world: World, draw: random.Random) -> list[dict[str, Any]]:
    """Requests of all days, most of them within a microsecond of a run's instant or of its expiry."""
    life = micros_of(world.precompute.life)
    edges = [at + delta for _, run, _ in runs_of(world) for at in (run, run + life) for delta in (-1, 0, 1)]
    rows = []
    for number in range(260):
        ds = draw.choice(DAYS)
        start, end = map(micros, day_bounds(ds, ZONE))
        near = [at for at in edges if start <= at < end]
        at = draw.choice(near) if near and draw.random() < 0.6 else draw.randrange(start, end)
        who = draw.choice([None, 0, 1, -2, 2**53 + 1, 2**53])
        what = {"ad_id": draw.choice([0, -1, 10, 11, 12]), "surface": draw.choice(["feed", "story"])}
        rows.append(
            {"impression_id": number, "user_id": who, **what, "request_us": at, "keep_rate": 1.0, "hour": 1, "ds": ds}
        )
    return rows


def looped(
    examples: Sequence[dict[str, Any]], vectors: Sequence[dict[str, Any]], world: World
) -> dict[tuple[str, int], tuple[int | None, str, list[float] | None]]:
    """(generation, impression) -> run, source, vector; one row at a time, by the words of the contract."""
    life = micros_of(world.precompute.life)
    stored = {(v["fm_generation"], v["run_us"], v["surface"], v["user_id"], v["ad_id"]): v["vector"] for v in vectors}
    found: dict[tuple[str, int], tuple[int | None, str, list[float] | None]] = {}
    for row in examples:
        start, end = map(micros, day_bounds(row["ds"], ZONE))
        for generation in (G, H):
            runs = {v["run_us"] for v in vectors if v["fm_generation"] == generation}
            if not any(run < end and run + life > start for run in runs):
                continue
            run = max((run for run in runs if run <= row["request_us"]), default=None)
            if run is not None and row["request_us"] >= run + life:
                run = None
            answer: tuple[int | None, str, list[float] | None] = (run, "none", None)
            if row["user_id"] is not None:
                for source, ad in (("user", None), ("exact", row["ad_id"])):
                    vector = stored.get((generation, run, row["surface"], row["user_id"], ad))  # type: ignore[arg-type]
                    answer = (run, source, vector) if vector is not None else answer
            found[generation, row["impression_id"]] = answer
    return found


@pytest.fixture(scope="module")
def drawn(world: World) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    draw = random.Random(5)
    return drawn_examples(world, draw), drawn_vectors(world, draw)


@pytest.fixture(scope="module")
def published(spark: "SparkSession", world: World, drawn: Any, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    examples, vectors = drawn
    tables = Tables(spark, world, Home(tmp_path_factory.mktemp("solaris")))
    tables.publish("examples", stamped(frame(spark, EXAMPLES, examples), "request"), DAYS)
    # the 10th was run without candidates; the 12th was never run
    tables.publish("solaris_vectors", stamped(frame(spark, VECTORS, vectors), "run"), DAYS[:5])
    return tables


def answered(rows: "DataFrame") -> dict[tuple[str, int], tuple[int | None, str, list[float] | None]]:
    collected = rows.selectExpr("*", "unix_micros(run_ts) AS us").collect()
    found = {(r["fm_generation"], r["impression_id"]): (r["us"], r["source"], r["vector"]) for r in collected}
    assert len(found) == len(collected)
    return found


def test_the_trainer_sees_what_a_loop_and_the_cache_answer(
    world: World, published: Tables, drawn: Any, tmp_path: Path
) -> None:
    examples, vectors = drawn
    found = answered(train_vectors(published.spark, world, DAYS, published))
    expected = looped(examples, vectors, world)
    assert found == expected
    assert Counter(source for _, source, _ in found.values()).keys() == {"none", "user", "exact"}
    # as it was served: each request is asked right after the last run that had been published by then
    life = micros_of(world.precompute.life)
    cache, todo = VectorCache(tmp_path / "vectors.db", life), sorted(runs_of(world), key=lambda run: run[1])
    for row in sorted(examples, key=lambda example: example["request_us"]):
        while todo and todo[0][1] <= row["request_us"]:
            generation, run_us, _ = todo.pop(0)
            mine = [v for v in vectors if (v["fm_generation"], v["run_us"]) == (generation, run_us)]
            given = [(v["surface"], v["user_id"], v["ad_id"], np.array(v["vector"], np.float32)) for v in mine]
            assert cache.publish_run(generation, run_us, given)
        for generation in (G, H):
            served = cache.lookup(generation, row["surface"], row["user_id"], [row["ad_id"]], row["request_us"])[0]
            _, source, vector = found.get((generation, row["impression_id"]), (None, "none", None))
            assert served.source == source
            assert (None if served.vector is None else served.vector.tolist()) == vector


def test_rows_are_generations_times_examples_and_a_range_is_its_days(world: World, published: Tables) -> None:
    whole = train_vectors(published.spark, world, DAYS, published)
    expected = expected_train_rows(published.spark, world, DAYS, published)
    results = published.publish("solaris_train_vectors", whole, DAYS, expected)
    assert {result.ds: result.rows for result in results} == expected
    assert expected[DAYS[0]] == 0 and expected[DAYS[1]] > 0 and expected[DAYS[5]] > 0
    for ds in (DAYS[0], DAYS[2]):
        assert expected_train_rows(published.spark, world, [ds], published) == {ds: expected[ds]}
        single = train_vectors(published.spark, world, [ds], published)
        assert not published.publish("solaris_train_vectors", single, [ds], expected)[0].changed


def test_runs_matter_to_the_days_that_they_can_answer(world: World) -> None:
    life = micros_of(world.precompute.life)
    start, end = map(micros, day_bounds(DAYS[2], ZONE))
    stamps = [start - life, start - life + 1, end - 1, end]
    assert runs_by_day([(G, stamp) for stamp in stamps], world, [DAYS[2]]) == {DAYS[2]: {G: stamps[1:3]}}
    assert runs_by_day([], world, DAYS[:2]) == {DAYS[0]: {}, DAYS[1]: {}}


def test_surfaces_that_no_vertical_serves_are_left_out(spark: "SparkSession", world: World) -> None:
    only_feed = world.model_copy(update={"verticals": world.verticals[:1]})
    at = micros(run_instant(world, DAYS[0]))
    examples = [
        {"impression_id": n, "user_id": 1, "ad_id": 10, "surface": surface, "request_us": at, "ds": DAYS[1]}
        for n, surface in enumerate(("feed", "story"))
    ]
    vector = {"run_us": at, "fm_generation": G, "surface": "feed", "user_id": 1, "ad_id": 10, "vector": [0.5]}
    rows = train_vectors_of(
        stamped(frame(spark, EXAMPLES, examples), "request"),
        stamped(frame(spark, VECTORS, [vector]), "run"),
        {DAYS[1]: {G: [at]}},
        only_feed,
    )
    assert answered(rows) == {(G, 0): (at, "exact", [0.5])}
