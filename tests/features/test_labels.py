"""Labels: due days, what counts as an outcome, credit, parents, weights - each by a log made for it."""

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from features.labels import Log, due_counts, labels_of, look_back
from features.worlds import World, load_world
from tests.features.frames import IMPRESSIONS, OUTCOMES, frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.assets
DAYS = ["2024-03-07", "2024-03-08", "2024-03-09", "2024-03-10"]


@pytest.fixture(scope="module")
def world() -> World:
    return load_world("tiny")


def changed(world: World, name: str, **fields: Any) -> World:
    """The world with other settings of one task."""
    tasks = tuple(task.model_copy(update=fields) if task.name == name else task for task in world.tasks)
    return world.model_copy(update={"tasks": tasks})


def shown(ident: int, at: str, ds: str = DAYS[0], **more: Any) -> dict[str, Any]:
    row = {"impression_id": ident, "request_id": ident, "user_id": 1, "ad_id": 10, "surface": "feed"}
    return {**row, "request_ts": at, "keep_rate": 0.5, "ds": ds, **more}


def click(request: int, at: str, ds: str = DAYS[0], ad: int = 10) -> dict[str, Any]:
    return {"request_id": request, "user_id": 1, "ad_id": ad, "event_type": "click", "event_ts": at, "ds": ds}


def buy(at: str, ds: str = DAYS[0], user: int = 1) -> dict[str, Any]:
    return {"request_id": None, "user_id": user, "ad_id": 10, "event_type": "buy", "event_ts": at, "ds": ds}


def found(spark: "SparkSession", world: World, shows: list, outcomes: list, days: list[str]) -> dict[tuple, dict]:
    log = Log(world, frame(spark, IMPRESSIONS, shows), frame(spark, OUTCOMES, outcomes))
    rows = labels_of(log, days).collect()
    keyed = {(row["impression_id"], row["task"]): row.asDict() for row in rows}
    assert len(keyed) == len(rows)
    return keyed


def labels(rows: dict[tuple, dict], task: str) -> dict[int, float]:
    return {ident: row["label"] for (ident, name), row in rows.items() if name == task}


def test_a_pair_is_due_on_the_day_of_its_last_instant(spark: "SparkSession", world: World) -> None:
    # 03:59:59 UTC on the 8th is 22:59:59 in New York; one hour later the day still lasts one second
    shows = [
        shown(1, "2024-03-08 03:59:59"),
        shown(2, "2024-03-08 04:00:00"),
        shown(3, "2024-03-07 15:00:00"),
    ]
    clicks = [click(2, "2024-03-08 04:10:00")]
    rows = found(spark, world, shows, clicks, DAYS[:1])
    assert labels(rows, "click") == {1: 0.0, 3: 0.0}
    # the positive waits until its window has closed, too
    later = found(spark, world, shows, clicks, DAYS[1:2])
    assert labels(later, "click") == {2: 1.0}
    assert later[2, "click"]["ds"] == DAYS[0] and later[2, "click"]["label_ds"] == DAYS[1]


def test_window_bounds_are_inclusive_to_the_microsecond(spark: "SparkSession", world: World) -> None:
    stamps = {
        1: "2024-03-07 14:59:59.999999",
        2: "2024-03-07 15:00:00",
        3: "2024-03-07 16:00:00",
        4: "2024-03-07 16:00:00.000001",
    }
    shows = [shown(ident, "2024-03-07 15:00:00") for ident in stamps]
    rows = found(spark, world, shows, [click(ident, at) for ident, at in stamps.items()], DAYS[:1])
    assert labels(rows, "click") == {1: 0.0, 2: 1.0, 3: 1.0, 4: 0.0}


def test_without_from_request_the_request_instant_does_not_count(spark: "SparkSession", world: World) -> None:
    strict = changed(world, "click", from_request=False)
    shows = [shown(1, "2024-03-07 15:00:00"), shown(2, "2024-03-07 15:00:00")]
    clicks = [click(1, "2024-03-07 15:00:00"), click(2, "2024-03-07 15:00:00.000001")]
    assert labels(found(spark, strict, shows, clicks, DAYS[:1]), "click") == {1: 0.0, 2: 1.0}


def test_an_outcome_that_arrives_after_the_label_day_is_too_late(spark: "SparkSession", world: World) -> None:
    shows = [shown(1, "2024-03-07 15:00:00")]
    late = [click(1, "2024-03-07 15:10:00", ds=DAYS[1])]
    assert labels(found(spark, world, shows, late, DAYS), "click") == {1: 0.0}


def test_all_match_columns_must_agree_and_null_matches_nothing(spark: "SparkSession", world: World) -> None:
    shows = [shown(1, "2024-03-07 15:00:00"), shown(2, "2024-03-07 15:00:00", request_id=None)]
    outcomes = [
        click(1, "2024-03-07 15:10:00", ad=11),
        {**click(2, "2024-03-07 15:10:00"), "request_id": None},
    ]
    assert labels(found(spark, world, shows, outcomes, DAYS[:1]), "click") == {1: 0.0, 2: 0.0}


def test_a_child_exists_only_where_its_parent_is_positive(spark: "SparkSession", world: World) -> None:
    shows = [shown(1, "2024-03-07 15:00:00"), shown(2, "2024-03-07 15:00:00", user_id=2)]
    outcomes = [
        click(1, "2024-03-07 15:10:00"),
        buy("2024-03-07 20:00:00"),
        buy("2024-03-07 20:00:00", user=2),
    ]
    # 12 hours and 6 hours of lag later it is the 8th in New York
    rows = found(spark, world, shows, outcomes, DAYS[1:2])
    assert rows.keys() == {(1, "buy")}
    assert rows[1, "buy"]["label"] == 1.0
    assert rows[1, "buy"]["label_ds"] == DAYS[1]


@pytest.mark.parametrize(
    ("credit", "expected"),
    [("last", {1: 0.0, 2: 1.0}), ("first", {1: 1.0, 2: 0.0}), ("all", {1: 1.0, 2: 1.0})],
)
def test_credit(spark: "SparkSession", world: World, credit: str, expected: dict[int, float]) -> None:
    shows = [
        shown(1, "2024-03-07 15:00:00"),
        shown(2, "2024-03-07 17:00:00"),
        shown(3, "2024-03-07 18:00:00"),
    ]
    # the third was never clicked, so it is no rival
    outcomes = [click(1, "2024-03-07 15:10:00"), click(2, "2024-03-07 17:10:00"), buy("2024-03-07 19:00:00")]
    outcomes += [buy("2024-03-07 19:00:00", ds=DAYS[1])]
    rows = found(spark, changed(world, "buy", credit=credit), shows, outcomes, DAYS[1:2])
    assert labels(rows, "buy") == expected


def test_a_rival_that_is_due_later_takes_the_credit_all_the_same(spark: "SparkSession", world: World) -> None:
    shows = [shown(1, "2024-03-07 15:00:00"), shown(2, "2024-03-08 01:00:00")]
    outcomes = [click(1, "2024-03-07 15:10:00"), click(2, "2024-03-08 01:10:00"), buy("2024-03-08 02:00:00")]
    sharper = changed(world, "buy", lag=timedelta(hours=10))
    whole = found(spark, sharper, shows, outcomes, DAYS)
    assert labels(whole, "buy") == {1: 0.0, 2: 1.0}


def test_per_row_windows_end_before_their_end(spark: "SparkSession", world: World) -> None:
    promised = changed(world, "click", window=None, window_column="window_end")
    shows = [
        shown(1, "2024-03-07 15:00:00", window_end="2024-03-09 05:00:00"),
        shown(2, "2024-03-07 15:00:00", window_end="2024-03-09 05:00:00"),
        # no window, hence no task
        shown(3, "2024-03-07 15:00:00"),
    ]
    outcomes = [click(1, "2024-03-09 04:59:59.999999", DAYS[1]), click(2, "2024-03-09 05:00:00", DAYS[1])]
    rows = found(spark, promised, shows, outcomes, DAYS[:3])
    assert labels(rows, "click") == {1: 1.0, 2: 0.0}
    # 05:00 UTC is midnight in New York: the last instant is on the 8th
    assert {row["label_ds"] for row in rows.values()} == {DAYS[1]}


def test_weights_undo_the_sampling_where_there_was_a_choice(spark: "SparkSession", world: World) -> None:
    shows = [
        shown(1, "2024-03-07 15:00:00"),
        shown(2, "2024-03-07 15:00:00"),
        shown(3, "2024-03-07 15:00:00", keep_rate=1.0),
    ]
    outcomes = [click(1, "2024-03-07 15:10:00")]
    first = found(spark, world, shows, outcomes, DAYS[:1])
    assert {ident: row["weight"] for (ident, _), row in first.items()} == {1: 1.0, 2: 2.0, 3: 1.0}
    # the child of a primary positive was kept for certain
    assert found(spark, world, shows, outcomes, DAYS[1:2])[1, "buy"]["weight"] == 1.0


def test_tasks_live_on_their_surfaces(spark: "SparkSession", world: World) -> None:
    narrow = changed(world, "click", surfaces=("story",))
    shows = [shown(1, "2024-03-07 15:00:00"), shown(2, "2024-03-07 15:00:00", surface="story")]
    assert labels(found(spark, narrow, shows, [], DAYS[:1]), "click") == {2: 0.0}


def test_a_range_gives_what_its_days_give(spark: "SparkSession", world: World) -> None:
    shows = [shown(n, f"2024-03-0{7 + n % 3} {n % 24:02}:20:00", DAYS[n % 3], user_id=n % 2) for n in range(40)]
    shows = [{**row, "ds": DAYS[max(n % 3 - (n % 24 < 5), 0)]} for n, row in enumerate(shows)]
    outcomes = [
        click(n, f"2024-03-0{7 + n % 3} {n % 24:02}:40:00", DAYS[min(n % 3 + n % 2, 3)]) for n in range(0, 40, 3)
    ]
    outcomes += [buy(f"2024-03-0{7 + n % 3} {(n + 2) % 24:02}:00:00", DAYS[n % 3], user=n % 2) for n in range(0, 40, 5)]
    impressions, results = frame(spark, IMPRESSIONS, shows), frame(spark, OUTCOMES, outcomes)
    whole = labels_of(Log(world, impressions, results), DAYS).collect()
    single = []
    for ds in DAYS:
        known = Log(world, impressions.where(f"ds <= '{ds}'"), results.where(f"ds <= '{ds}'"))
        single += labels_of(known, [ds]).collect()
    counts = due_counts(Log(world, impressions, results), DAYS)
    assert counts == Counter((row["label_ds"], row["task"]) for row in whole)
    assert len(whole) > 30 and {row["label"] for row in whole} == {0.0, 1.0}
    assert sorted(map(str, whole)) == sorted(map(str, single))


def test_look_back_covers_window_and_lag(world: World) -> None:
    buy_task = next(task for task in world.tasks if task.name == "buy")
    assert look_back(buy_task) == 2
    assert look_back(buy_task.model_copy(update={"window": timedelta(days=28)})) == 30
    assert look_back(buy_task.model_copy(update={"window": None, "window_column": "window_end"})) is None


def windowed(world: World, **fields: Any) -> World:
    """`buy` known after 12 hours and after 3, without a click before it unless the fields say so."""
    return changed(world, "buy", shorter=(timedelta(hours=3),), **fields)


def test_each_window_of_a_conversion_has_its_own_labels_due_days_and_lateness(
    spark: "SparkSession", world: World
) -> None:
    # Requests at noon in New York: with 6 hours of lag the short window is due that day, the long one the day after.
    shows = [shown(ident, "2024-03-07 17:00:00", user_id=ident) for ident in range(1, 6)]
    outcomes = [click(ident, "2024-03-07 17:05:00") | {"user_id": ident} for ident in range(1, 6)]
    outcomes += [
        buy("2024-03-07 20:00:00", user=1),
        # a microsecond after the short window
        buy("2024-03-07 20:00:00.000001", user=2),
        # in both windows, but told a day later: the short label stands, the long one learns of it
        buy("2024-03-07 18:00:00", ds=DAYS[1], user=3),
        # told after both were due
        buy("2024-03-07 18:00:00", ds=DAYS[2], user=4),
    ]
    rows = found(spark, windowed(world, parent=None), shows, outcomes, DAYS)
    short, long = labels(rows, "buy_within_3h"), labels(rows, "buy")
    assert short == {1: 1.0, 2: 0.0, 3: 0.0, 4: 0.0, 5: 0.0}
    assert long == {1: 1.0, 2: 1.0, 3: 1.0, 4: 0.0, 5: 0.0}
    due = {name: {row["label_ds"] for (_, task), row in rows.items() if task == name} for _, name in rows}
    assert due == {"click": {DAYS[0]}, "buy_within_3h": {DAYS[0]}, "buy": {DAYS[1]}}
    # A day restated with the late row changes what comes after it was known, and nothing that was due before.
    before = found(spark, windowed(world, parent=None), shows, outcomes[:-2], DAYS)
    assert {key for key in rows if rows[key]["label"] != before[key]["label"]} == {(3, "buy")}


@pytest.mark.parametrize("credit", ["first", "last"])
def test_labels_of_windows_nest(spark: "SparkSession", world: World, credit: str) -> None:
    # Ten requests of one user an hour apart, each clicked; two purchases. By the short window alone, `first` would
    # give them to the fifth and seventh, by the long one to the first.
    shows = [shown(n, f"2024-03-07 {9 + n:02}:00:00") for n in range(1, 11)]
    outcomes = [click(n, f"2024-03-07 {9 + n:02}:10:00") for n in range(1, 11)]
    outcomes += [buy("2024-03-07 17:30:00"), buy("2024-03-07 19:20:00")]
    rows = found(spark, windowed(world, credit=credit), shows, outcomes, DAYS)
    short, long = labels(rows, "buy_within_3h"), labels(rows, "buy")
    assert short.keys() == long.keys() and len(long) == 10
    assert all(short[ident] <= long[ident] for ident in long)
    # what the long window grants to an impression close to the outcome, the short one grants too
    assert sum(short.values()) == {"first": 0, "last": 2}[credit]
    assert sum(long.values()) == {"first": 1, "last": 2}[credit]


def test_without_its_parent_on_a_surface_a_task_is_direct_there(spark: "SparkSession", world: World) -> None:
    unclicked = changed(world, "click", surfaces=("feed",))
    shows = [
        shown(1, "2024-03-07 15:00:00", user_id=1),
        shown(2, "2024-03-07 15:00:00", user_id=2),
        shown(3, "2024-03-07 15:00:00", user_id=3, surface="story"),
        shown(4, "2024-03-07 15:00:00", user_id=4, surface="story"),
        # the same user saw the ad on both surfaces: the later one is its rival, though no click was possible there
        shown(5, "2024-03-07 15:00:00", user_id=5),
        shown(6, "2024-03-07 15:30:00", user_id=5, surface="story"),
    ]
    outcomes = [click(1, "2024-03-07 15:10:00"), click(5, "2024-03-07 15:10:00") | {"user_id": 5}]
    outcomes += [buy("2024-03-07 20:00:00", user=user) for user in (1, 2, 4, 5)]
    rows = found(spark, unclicked, shows, outcomes, DAYS)
    assert labels(rows, "click") == {1: 1.0, 2: 0.0, 5: 1.0}
    assert labels(rows, "buy") == {1: 1.0, 3: 0.0, 4: 1.0, 5: 0.0, 6: 1.0}
    log = Log(unclicked, frame(spark, IMPRESSIONS, shows), frame(spark, OUTCOMES, outcomes))
    assert due_counts(log, DAYS) == Counter((row["label_ds"], task) for (_, task), row in rows.items())
