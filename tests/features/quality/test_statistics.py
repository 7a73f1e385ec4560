"""What a day is compared with, and when it is not compared at all."""

import math
from typing import Any

import pytest

from features.days import day_bounds, micros
from features.quality.day_audit import statistics_frame
from features.quality.monitors import Monitor
from features.quality.profile import Profile
from features.quality.shape import Change
from features.quality.statistics import Surroundings, psi, statistics_of, trailing_days

ZONE = "Europe/Berlin"
DAY = "2026-03-29"
MONITOR = Monitor(clock="at", within=True, features=("number",), nullable={"user_id": 0.5})


def stamp(ds: str, hour: float) -> int:
    """Microseconds of an hour counted from the first instant of a local day."""
    return micros(day_bounds(ds, ZONE)[0]) + int(hour * 3_600_000_000)


def profile(ds: str = DAY, rows: int = 1000, **more: Any) -> Profile:
    given = {"nulls": {"user_id": 0}, "first": stamp(ds, 0), "last": stamp(ds, 22.9)}
    return Profile(rows=rows, **given | more)


def before(count: int = 5, **more: Any) -> dict[str, Profile]:
    return {ds: profile(ds, **more) for ds in trailing_days(DAY)[-count:]}


def statistic(name: str, subject: str, day: Profile, around: Surroundings) -> float | None:
    found = [row for row in statistics_of(DAY, day, MONITOR, around, ZONE) if row["subject"] == subject]
    return found[0].get(name) if found else None


def test_rows_are_compared_with_the_median_of_the_days_before() -> None:
    past = before(2) | {"2026-03-24": profile("2026-03-24", rows=10), "2026-03-23": Profile()}
    assert statistic("rows_ratio", "rows", profile(rows=300), Surroundings(past)) == 0.3


def test_too_few_days_before_are_no_comparison() -> None:
    """A day without rows is none to compare with."""
    few = before(2) | {"2026-03-20": Profile()}
    assert statistic("rows_ratio", "rows", profile(rows=1), Surroundings(few)) is None
    assert statistic("null_rise", "user_id", profile(nulls={"user_id": 1000}), Surroundings(few)) is None


def test_a_restated_day_says_how_many_rows_it_lost() -> None:
    assert statistic("rows_lost", "rows", profile(rows=1), Surroundings(earlier=profile(rows=3))) == 2
    assert statistic("rows_lost", "rows", profile(rows=4), Surroundings(earlier=profile(rows=3))) == 0


def test_refused_rows_are_set_against_raw_rows_not_sampled_ones() -> None:
    around, sampled = Surroundings(refused=100), Monitor(kept=0.1)
    assert statistic("refused_share", "rows", profile(rows=900), around) == 0.1
    found = statistics_of(DAY, profile(rows=90), sampled, around, ZONE)
    assert found[0]["refused_share"] == pytest.approx(0.1)


def test_nulls_against_a_bound_and_against_the_days_before() -> None:
    day = profile(nulls={"user_id": 600})
    assert statistic("null_share", "user_id", day, Surroundings()) == pytest.approx(1.2)
    assert statistic("null_rise", "user_id", day, Surroundings(before(nulls={"user_id": 100}))) == pytest.approx(0.5)


def test_psi_is_zero_for_equal_distributions_and_known_for_two_values() -> None:
    equal = {"=a": 400, "=b": 600}
    assert psi(equal, {"=a": 40, "=b": 60}) == pytest.approx(0, abs=1e-4)
    expected = (0.8 - 0.4) * math.log(0.8 / 0.4) + (0.2 - 0.6) * math.log(0.2 / 0.6)
    assert psi({"=a": 40_000, "=b": 60_000}, {"=a": 80_000, "=b": 20_000}) == pytest.approx(expected, rel=1e-3)


def test_psi_joins_bins_of_numbers_to_groups_of_about_equal_weight() -> None:
    fine = {str(place): 100 for place in range(1000)}
    moved = {str(place): 100 for place in range(500, 1500)}
    assert psi(fine, fine) == pytest.approx(0)
    found = psi(fine, moved)
    assert found is not None and found > 0.25


def test_psi_of_a_handful_of_rows_is_chance_and_not_told() -> None:
    assert psi({"=a": 400, "=b": 600}, {"=a": 0, "=b": 30}) is None
    assert psi(None, {"=a": 100}) is None
    assert psi({"=a": 1000}, {"=a": 1000}) is None


def test_a_rate_is_compared_once_enough_ones_are_due() -> None:
    past = before(rates={"click": (100, 1000)})
    assert statistic("rate_ratio", "click", profile(rates={"click": (30, 1000)}), Surroundings(past)) == pytest.approx(
        0.3
    )
    assert statistic("rate_ratio", "click", profile(rates={"click": (0, 100)}), Surroundings(past)) is None


def test_stamps_outside_of_a_day_of_23_hours_are_found() -> None:
    """B25: the day ends where its zone says, not after 24 hours."""
    inside = profile(last=stamp(DAY, 23) - 1)
    assert statistic("seconds_after", "at", inside, Surroundings()) == 0
    late = profile(first=stamp(DAY, -0.5), last=stamp(DAY, 23.5))
    assert statistic("seconds_after", "at", late, Surroundings()) == pytest.approx(1800, abs=1e-3)
    assert statistic("seconds_before", "at", late, Surroundings()) == 1800


def test_silence_before_the_end_is_measured_against_the_days_before() -> None:
    early = profile(last=stamp(DAY, 13))
    assert statistic("quiet_ratio", "at", early, Surroundings()) == pytest.approx(10 / 6)
    quiet = before(1) | {"2026-03-27": profile("2026-03-27", last=stamp("2026-03-27", 14))}
    assert statistic("quiet_ratio", "at", early, Surroundings(quiet)) == pytest.approx(10 / 20)


def test_a_share_of_partners_is_compared_and_none_at_all_is_told_from_the_first_day_on() -> None:
    usual = {ds: (90, 100) for ds in trailing_days(DAY)[-4:]}
    dropped = Surroundings(matched={"outcomes of click": usual | {DAY: (9, 100)}})
    assert statistic("matched_ratio", "outcomes of click", profile(), dropped) == pytest.approx(0.1)
    nothing = Surroundings(matched={"outcomes of click": {DAY: (0, 100)}})
    assert statistic("matched_ratio", "outcomes of click", profile(), nothing) == 0
    few = Surroundings(matched={"outcomes of click": {DAY: (0, 5)}})
    assert statistic("matched_ratio", "outcomes of click", profile(), few) is None


def test_the_frame_keeps_only_statistics_that_apply() -> None:
    around = Surroundings(change=Change(new=("colour",)), orphans={"impressions": 3, "ads": None})
    frame = statistics_frame(statistics_of(DAY, profile(), MONITOR, around, ZONE))
    assert {"rows_lost", "null_share", "new_column", "orphans"} <= set(frame)
    assert not {"rows_ratio", "psi", "refused_share"} & set(frame)
    assert frame.set_index("subject").loc["impressions of its rows", "orphans"] == 3
