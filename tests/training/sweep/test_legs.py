"""The days of a sweep: what is judged was never trained on before, and the check walks on without a gap."""

import pytest

from training.sweep.grid import SweepError
from training.sweep.legs import Leg, check_leg, small_leg


def test_the_small_budget_is_judged_on_the_later_half_of_its_days() -> None:
    assert small_leg("2024-05-01", "2024-05-02") == Leg(("2024-05-01",), "2024-05-02", "2024-05-02")
    leg = small_leg("2024-02-27", "2024-03-03")
    assert leg.walk == ("2024-02-27", "2024-02-28", "2024-02-29", "2024-03-01", "2024-03-02")
    assert (leg.judged_from, leg.last) == ("2024-03-01", "2024-03-03")


def test_the_check_walks_on_and_is_judged_on_its_own_days() -> None:
    small, later = small_leg("2024-05-01", "2024-05-03"), check_leg("2024-05-03", 2)
    assert (*small.walk, *later.walk) == ("2024-05-01", "2024-05-02", "2024-05-03", "2024-05-04")
    assert (later.judged_from, later.last) == ("2024-05-04", "2024-05-05")
    assert later.judged_from > small.last


@pytest.mark.parametrize("end", ["2024-05-01", "2024-04-30"])
def test_fewer_than_two_days_are_refused(end: str) -> None:
    with pytest.raises(SweepError, match="needs at least 2, one to learn from"):
        small_leg("2024-05-01", end)


def test_a_check_without_days_is_refused() -> None:
    with pytest.raises(SweepError, match="at least 1"):
        check_leg("2024-05-01", 0)
