"""The replay clock stands at the end of the newest published day and never goes back."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from features.clock import JUST_AFTER, advance, now, run_instant
from features.days import day_end
from features.errors import GemlineError
from features.home import Home
from features.worlds import load_world


def test_replay_time_is_the_end_of_the_newest_day_plus_the_largest_lag(tmp_path: Path) -> None:
    world, home = load_world("tiny"), Home(tmp_path)
    with pytest.raises(GemlineError, match="no day is in the online store yet"):
        now(world, home)
    advance(home, "2024-03-10")
    # local midnight after the clocks went forward is 04:00 UTC
    midnight = datetime(2024, 3, 11, 4, tzinfo=UTC)
    assert now(world, home) == run_instant(world, "2024-03-10") == midnight + world.largest_lag + JUST_AFTER
    assert advance(home, "2024-03-08") == "2024-03-10"
    assert now(world, home) == midnight + world.largest_lag + JUST_AFTER


def test_the_newest_statistics_are_seen_now_even_without_any_lag(tmp_path: Path) -> None:
    world, home = load_world("complete_journey"), Home(tmp_path)
    assert world.largest_lag == timedelta(0)
    advance(home, "2017-07-02")
    assert day_end("2017-07-02", world.timezone) < now(world, home)


def test_a_real_world_has_the_servers_clock(tmp_path: Path) -> None:
    world = load_world("tiny").model_copy(update={"clock": "real"})
    assert abs(now(world, Home(tmp_path)) - datetime.now(UTC)) < timedelta(seconds=5)
