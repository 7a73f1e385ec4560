"""The page: what must be readable in it, and what must not be in it."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from features.home import Home
from features.worlds import World
from orchestration.reporting.facts import gather
from orchestration.reporting.render import render, report_file, write_report
from tests.orchestration.reporting.conftest import DS, HOSTILE, HandTables, Writer, gate, good, judged, number, sliced

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """Text by section, tags, and attributes of a page whose tags must be balanced."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.section = ""
        self.texts: dict[str, str] = {}
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        self.ids += [found["id"] or ""] if "id" in found else []
        self.links += [found[name] or "" for name in ("href", "src", "action", "xlink:href") if name in found]
        if tag in ("td", "th"):
            self.handle_data(" ")
        if tag == "section":
            self.section = found["id"] or ""
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.section = "" if tag == "section" else self.section

    def handle_data(self, data: str) -> None:
        self.texts[self.section] = self.texts.get(self.section, "") + data

    def text(self, section: str) -> str:
        return re.sub(r"\s+", " ", self.texts[section])


@pytest.fixture
def page(home: Home, world: World, write: Writer, examples: str) -> Page:
    """A red GEM, a vertical with transfer, one never judged."""
    write("gem", judged("rejected", "click: worse than the incumbent"))
    transfer = [sliced("click", None, {"ne_ratio": number(0.9871, 0.9702, 1.0033), "auc_difference": number(0.0123)})]
    write(
        "feed_click", judged("carried", "click: too little evidence", transfer=transfer, generation="gen-0123456789ab")
    )
    gates = [gate("impressions", "failed", rule="unique", sample=HOSTILE), gate("labels")]
    return Page(render(gather(HandTables(home, gates, [], (examples,)), home, world, DS)))


def test_decisions_are_in_words_at_the_top(page: Page) -> None:
    found = page.text("verdicts")
    assert "gem rejected" in found and "click: worse than the incumbent" in found
    assert "feed_click carried" in found
    assert "story_click not judged" in found and f"there is no evaluation of story_click of {DS}" in found
    assert "900 rows, 41 positives, 2 days pooled" in found


def test_numbers_have_intervals_counts_and_one_line_of_meaning(page: Page) -> None:
    found = page.text("quality")
    assert "0.9123 [0.8811, 0.9402]" in found and "1,234" in found
    assert "lower is better, below 1 is better than the base rate" in found
    assert "Predicted over observed positives" in found


def test_insufficient_and_undefined_are_words_and_never_numbers_or_blanks(page: Page) -> None:
    found = page.text("slices")
    assert "insufficient (3): fewer than 8 positives" in found
    assert "undefined (one class)" in found
    assert "0.6011 no interval (fewer than two users) 31 users" in found
    assert "nan" not in found.lower().split() and "None" not in found


def test_differences_have_a_sign(page: Page) -> None:
    assert "-0.0311 [-0.0502, -0.0101]" in page.text("slices")
    assert "0.9871 [0.9702, 1.0033]" in page.text("transfer") and "+0.0123 no interval" in page.text("transfer")


def test_transfer_names_what_is_missing(page: Page) -> None:
    assert f"Not judged: there is no evaluation of story_click of {DS}" in page.text("transfer")


def test_gates_and_features_are_shown(page: Page) -> None:
    gates = page.text("gates")
    assert "impressions failed nothing readable" in gates and "labels passed" in gates
    features = page.text("features")
    assert "50.0 %" in features and "no value in any row" in features
    assert "gen-0123456789ab" in page.text("lineage")


def test_a_hostile_sample_is_text(page: Page) -> None:
    assert HOSTILE in page.text("gates")
    assert "script" not in page.tags


def test_hostile_reasons_and_names_are_text_everywhere(home: Home, world: World, write: Writer) -> None:
    rows = [sliced("click", HOSTILE, {"ne": number(None, reason=HOSTILE)}, status=HOSTILE)]
    served = [sliced("click", None, {"ne": number(None, reason=HOSTILE)}, status=HOSTILE)]
    write("gem", judged("carried", HOSTILE, served=served, pooled=rows, digest=HOSTILE))
    (home.releases / "gem" / "live.json").write_text(HOSTILE)
    html = render(gather(None, home, world, DS))
    assert "<script" not in html and HOSTILE in Page(html).text("slices")


def test_the_page_needs_nothing_from_outside(page: Page) -> None:
    assert page.links and all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)


def test_no_address_is_in_the_text(home: Home, world: World, write: Writer) -> None:
    write("gem", judged())
    html = render(gather(None, home, world, DS))
    assert not re.search(r"https?:|//[a-z]|url\(|@import", html)
    assert str(home.root) not in html


def test_the_synthetic_flag_is_wherever_numbers_are(home: Home, world: World, write: Writer, page: Page) -> None:
    for section in ("verdicts", "quality", "slices", "reliability", "transfer", "gates", "features", "lineage"):
        assert "synthetic data" in page.text(section), section
    write("gem", judged())
    real = world.model_copy(update={"synthetic": False})
    html = render(gather(None, home, real, DS)).lower()
    assert "synthetic" in render(gather(None, home, world, DS)).lower() and "synthetic" not in html


def test_one_day_and_one_without_a_value_are_drawn(home: Home, world: World, write: Writer) -> None:
    write("gem", judged(served=[sliced("click", None, {**good(), "auc": number(None, reason="one class")})]))
    html = render(gather(None, home, world, DS))
    assert html.count('<svg class="chart"') == 3
    assert html.count('class="dot"') == 2 and f"{DS}: 0.9123 [0.8811, 0.9402]" in html
    assert "no value on any day" in html


def test_a_long_series_is_drawn_whole_and_listed_in_part(home: Home, world: World, write: Writer) -> None:
    days = [f"2024-02-{day:02d}" for day in range(1, 21)]
    for ds in days:
        write("gem", judged(), ds)
    html = render(gather(None, home, world, days[-1]))
    assert html.count('class="dot"') == 3 * 20
    assert "newest 14 of 20 judged days" in Page(html).text("quality")


def test_slices_and_reliability_are_shown(home: Home, world: World, write: Writer) -> None:
    bins = [{"predicted": 0.01, "observed": 0.0125, "rows": 617, "positives": 8, "weight": 640.0}]
    frequency = sliced("click", "10-99", good()) | {"by": "user_frequency"}
    write("gem", judged(pooled=[sliced("click", None, good(), reliability=bins), frequency]))
    html = render(gather(None, home, world, DS))
    page = Page(html)
    assert "user seen before 10-99" in page.text("slices")
    assert "0.01000 0.01250 617 8" in page.text("reliability")
    assert "predicted 0.01000, observed 0.01250, 617 rows, 8 positives" in html
    assert "No slice with enough positives" in page.text("reliability"), "of the lines without a judgement"


def test_without_tables_the_page_says_so(home: Home, world: World) -> None:
    found = Page(render(gather(None, home, world, DS)))
    assert "this report was made without the tables" in found.text("gates")
    assert "this report was made without the tables" in found.text("features")


def test_a_world_without_verticals(home: Home, world: World) -> None:
    alone = world.model_copy(update={"verticals": ()})
    assert "This world has no vertical" in Page(render(gather(None, home, alone, DS))).text("transfer")


def test_the_file_is_replaced_at_once_and_the_same_facts_give_the_same_bytes(
    home: Home, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts, path = gather(None, home, world, DS), report_file(home, DS)
    assert path == home.root / "reports" / f"{DS}.html"
    first = write_report(facts, path).read_bytes()
    assert write_report(facts, path).read_bytes() == first

    def broken(self: Path, target: Path) -> Path:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        write_report(facts, path)
    assert path.read_bytes() == first and [entry.name for entry in path.parent.iterdir()] == [path.name]
