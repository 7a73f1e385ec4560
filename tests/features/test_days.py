"""Local days have 23, 24 or 25 hours, and no instant is in two of them or in none."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from features.days import day_bounds, day_of, day_range, shift


@pytest.mark.parametrize(("ds", "hours"), [("2026-03-28", 24), ("2026-03-29", 23), ("2026-10-25", 25)])
def test_a_day_lasts_as_long_as_its_zone_says(ds: str, hours: int) -> None:
    start, end = day_bounds(ds, "Europe/Berlin")
    assert end - start == timedelta(hours=hours)


def test_days_meet_without_gap_or_overlap() -> None:
    days = day_range("2026-03-27", "2026-03-31")
    bounds = [day_bounds(ds, "Europe/Berlin") for ds in days]
    assert all(earlier[1] == later[0] for earlier, later in pairwise(bounds))
    for ds, (start, end) in zip(days, bounds, strict=True):
        assert day_of(start, "Europe/Berlin") == ds == day_of(end - timedelta(microseconds=1), "Europe/Berlin")


def test_the_repeated_hour_stays_in_its_day() -> None:
    first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)  # 02:30 summer time
    assert day_of(first, "Europe/Berlin") == day_of(first + timedelta(hours=1), "Europe/Berlin") == "2026-10-25"


def test_calendar_arithmetic() -> None:
    assert shift("2024-02-28", 2) == "2024-03-01"
    assert day_range("2024-03-02", "2024-03-01") == []
