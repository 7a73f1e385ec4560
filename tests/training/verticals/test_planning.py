"""Which generation a day pins: the newest that is warm, else the parent's, else whatever there is."""

import pytest

from features.errors import GemlineError
from training.verticals.planning import pin

OLD = [f"2024-05-{day:02d}" for day in range(1, 21)]
NAMES = ["gen-a", "gen-b"]


@pytest.mark.parametrize(
    ("new_days", "current", "pinned"),
    [
        ([], "gen-a", "gen-a"),
        (OLD[-2:], "gen-a", "gen-a"),  # not warm yet
        (OLD[-3:], "gen-a", "gen-b"),
        ([*OLD[-4:-2], OLD[-1]], "gen-a", "gen-a"),  # a hole
        (OLD[-3:], None, "gen-b"),
        (OLD[-1:], "gen-b", "gen-a"),  # rolled back to the warm one rather than learn from one day
    ],
)
def test_a_switch_waits_for_the_warm_up(new_days: list[str], current: str | None, pinned: str) -> None:
    outputs = {"gen-a": OLD, "gen-b": new_days}
    assert pin(outputs, NAMES, "2024-05-21", 3, current) == pinned


def test_a_first_vertical_takes_what_there_is() -> None:
    assert pin({"gen-a": OLD[-1:]}, ["gen-a"], "2024-05-21", 7, None) == "gen-a"
    with pytest.raises(GemlineError, match="materialize fm_generation"):
        pin({}, [], "2024-05-21", 7, None)
