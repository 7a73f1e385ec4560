"""The slope of cost in days, and what a measurement is kept by."""

import json

import pytest

from benchmarks import extract
from benchmarks.process_tree import Tree


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_slope_is_the_power_of_days_whatever_the_start_up_costs(power: float) -> None:
    days = (2, 32, 62, 242)
    runs = [{"days": count, "seconds": 40.0 + 3.0 * (count - 2) ** power} for count in days]
    assert extract.slope(runs) == pytest.approx(power)


def test_a_span_is_measured_once_and_again_when_the_code_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("GEMLINE_HOME", str(tmp_path_factory.mktemp("home")))
    ran: list[list[str]] = []

    def watched(command: list[str], _environment: object) -> Tree:
        ran.append(command[3:5])
        return Tree(said=f"{json.dumps({'days': 3, 'stages': {}})}\nsome last word of the JVM", seconds=1.5, peak=7)

    monkeypatch.setattr(extract, "watched", watched)
    first = extract.measured("slice", 3)
    assert (first["days"], first["seconds"], first["peak"]) == (3, 1.5, 7)
    assert extract.measured("slice", 3) == first and ran == [["slice", "3"]]
    monkeypatch.setattr(extract, "_kept", lambda name: extract._folder() / f"{name}-another.json")
    extract.measured("slice", 3)
    assert len(ran) == 2


def test_a_measurement_that_fails_says_why_and_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("GEMLINE_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setattr(extract, "watched", lambda *_: Tree(said="out of memory", code=1))
    with pytest.raises(RuntimeError, match="3 days of slice failed:\nout of memory"):
        extract.measured("slice", 3)
    assert not list(extract._folder().glob("*.json"))
