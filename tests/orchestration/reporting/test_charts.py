"""Charts of plain numbers: one point, none, gaps, intervals, hostile words."""

from xml.etree import ElementTree

import pytest

from orchestration.reporting.charts import Dot, Mark, line_chart, reliability_chart


def drawn(marks: list[Mark], title: str = "NE", baseline: float | None = None) -> dict[str, list[ElementTree.Element]]:
    """Elements by class, of a chart that must be well formed."""
    found: dict[str, list[ElementTree.Element]] = {}
    for element in ElementTree.fromstring(line_chart(marks, title, baseline)).iter():
        found.setdefault(element.get("class") or element.tag, []).append(element)
    return found


def test_neighbouring_days_are_joined_by_a_line_and_a_band() -> None:
    chart = drawn([Mark(1, "d1", 0.9, 0.8, 1.0), Mark(2, "d2", 0.8, 0.7, 0.9)], baseline=1.0)
    assert len(chart["line"]) == len(chart["band"]) == len(chart["base"]) == 1
    assert len(chart["dot"]) == 2


def test_larger_is_higher_and_later_is_further_right() -> None:
    first, second = drawn([Mark(1, "d1", 0.9), Mark(2, "d2", 0.8)])["dot"]
    assert float(second.get("cy", "")) > float(first.get("cy", ""))
    assert float(second.get("cx", "")) > float(first.get("cx", ""))


def test_a_band_needs_both_intervals() -> None:
    chart = drawn([Mark(1, "d1", 0.9, 0.8, 1.0), Mark(2, "d2", 0.8)])
    assert "band" not in chart and len(chart["line"]) == len(chart["bar"]) == 1


@pytest.mark.parametrize("middle", [[], [Mark(2, "d2", None, note="one class")]], ids=["missing day", "undefined"])
def test_a_gap_is_not_bridged(middle: list[Mark]) -> None:
    chart = drawn([Mark(1, "d1", 0.9, 0.8, 1.0), *middle, Mark(3, "d3", 0.8, 0.7, 0.9)])
    assert "line" not in chart and "band" not in chart
    assert len(chart["dot"]) == 2


def test_what_is_undefined_says_why() -> None:
    chart = drawn([Mark(1, "d1", 0.9), Mark(2, "d2", None, note="one class")])
    assert [element.text for element in chart["cross"][0]] == ["d2: one class"]


def test_one_point_is_drawn_with_its_interval_inside_the_picture() -> None:
    chart = drawn([Mark(5, "2024-03-10", 0.5, 0.4, 0.6)])
    assert len(chart["dot"]) == len(chart["bar"]) == 1
    lower, upper = (float(place.split(",")[1]) for place in chart["bar"][0].get("points", "").split())
    assert 0 < upper < float(chart["dot"][0].get("cy", "")) < lower < 170


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, 1e-9, 1e9])
def test_a_flat_line_has_ticks(value: float) -> None:
    assert 2 <= len(drawn([Mark(1, "d1", value), Mark(2, "d2", value)])["grid"]) <= 6


@pytest.mark.parametrize("marks", [[], [Mark(1, "d1", None, note="no rows")]])
def test_nothing_to_draw_is_said(marks: list[Mark]) -> None:
    assert drawn(marks)["text"][0].text == "no value on any day"


def test_words_are_escaped_and_the_chart_has_a_name() -> None:
    hostile = "<script>\"'&"
    svg = line_chart([Mark(1, hostile, None, note=hostile), Mark(2, hostile, 0.5, note=hostile)], hostile)
    assert "<script" not in svg
    assert ElementTree.fromstring(svg).get("aria-label", "").startswith(hostile)


def test_a_reliability_plot_has_what_is_calibrated_on_its_diagonal() -> None:
    found: dict[str, list[ElementTree.Element]] = {}
    dots = [Dot(0.01, 0.01), Dot(0.02, 0.05, "<b>"), Dot(0.004, 0.0)]
    for element in ElementTree.fromstring(reliability_chart(dots, "<script>")).iter():
        found.setdefault(element.get("class") or element.tag, []).append(element)
    (start_x, start_y), (end_x, end_y) = (
        map(float, place.split(",")) for place in found["base"][0].get("points", "").split()
    )

    def above(dot: ElementTree.Element) -> float:
        share = (float(dot.get("cx", "")) - start_x) / (end_x - start_x)
        return start_y + share * (end_y - start_y) - float(dot.get("cy", ""))

    calibrated, more = found["dot"]
    assert above(calibrated) == pytest.approx(0, abs=0.1) and above(more) > 5
    assert len(found["cross"]) == 1
    assert "observed 0.05000, <b>" in (more[0].text or "")


def test_a_reliability_plot_of_nothing_says_so() -> None:
    assert "nothing was predicted" in reliability_chart([], "x") and "nothing" in reliability_chart([Dot(0, 0)], "x")
