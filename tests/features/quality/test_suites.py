"""The suites in code: none is empty, none leaves a share of rows unchecked, each fault is named with its rows."""

from pathlib import Path

import pandas as pd
import pytest

from features.errors import GemlineError
from features.home import Home
from features.quality import suites, validation
from features.quality.day_rules import RULES, expectation_of
from features.quality.monitors import MONITORS
from features.quality.row_audit import broken_rows
from features.quality.suites import DOMAINS, describe, suite_of
from features.quality.validation import site, validate
from features.tables.specs import SPECS, TableSpec, spec_of
from features.worlds import load_world

WORLD = load_world("tiny")
DAY = {"2024-03-07": "content"}


@pytest.mark.parametrize("table", sorted(SPECS))
def test_every_table_has_a_suite_with_critical_rules(table: str) -> None:
    assert any(entry.severity == "critical" for entry in suite_of(spec_of(table), WORLD))
    assert describe(spec_of(table), WORLD)


def test_an_empty_suite_is_an_error() -> None:
    """B06 (c)."""
    with pytest.raises(GemlineError, match="empty suite"):
        suite_of(TableSpec("bare", "nothing", ()), WORLD)


def test_a_rule_about_a_share_of_rows_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audited beside good days it would pass where alone it fails."""
    import great_expectations.expectations as gxe

    shares = [gxe.ExpectColumnValuesToNotBeNull(column="user_id", mostly=0.5)]
    monkeypatch.setitem(suites.DOMAINS, "impressions", lambda _: shares)
    with pytest.raises(GemlineError, match=r"allows a share of rows .*monitors.py"):
        suite_of(spec_of("impressions"), WORLD)


def test_all_domains_and_monitors_belong_to_a_table() -> None:
    assert set(DOMAINS) | set(MONITORS) <= set(SPECS)


def test_rules_that_compare_days_never_close_the_gate() -> None:
    critical = {rule.statistic for rule in RULES if rule.severity == "critical"}
    assert critical == {"orphans", "seconds_before", "seconds_after"}
    assert all(expectation_of(rule).severity == rule.severity for rule in RULES)


def test_the_docs_name_every_rule_with_its_bounds() -> None:
    lines = (Path(__file__).parents[3] / "docs" / "quality.md").read_text(encoding="utf-8").splitlines()
    for rule in RULES:
        bounds = f"at most {rule.high:.3g}" if rule.low is None else f"{rule.low:.3g} to {rule.high:.3g}"
        assert any(line.startswith(f"| `{rule.statistic}` | {bounds} | {rule.severity} |") for line in lines), rule


def labels(**columns: list[object]) -> pd.DataFrame:
    good = {
        "label_ds": ["2024-03-07"] * 2,
        "ds": ["2024-03-07"] * 2,
        "impression_id": [1, 2],
        "task": ["click", "buy"],
        "label": [0.0, 1.0],
        "weight": [2.0, 1.0],
    }
    return pd.DataFrame(good | columns)


@pytest.mark.parametrize(
    ("columns", "rule", "sample"),
    [
        ({"label": [2.0, 1.0]}, "expect_column_values_to_be_in_set", "column label: 2.0 (rows label_ds=2024-03-07 im"),
        ({"label": [None, 1.0]}, "expect_column_values_to_not_be_null", "impression_id=1 task=click"),
        ({"task": ["click", "sneeze"]}, "expect_column_values_to_be_in_set", "column task: sneeze"),
        ({"weight": [0.5, 1.0]}, "expect_column_values_to_be_between", "column weight: 0.5"),
        (
            {"impression_id": [1, 1], "task": ["buy", "buy"]},
            "expect_compound_columns_to_be_unique",
            "impression_id=1 task=buy",
        ),
    ],
)
def test_a_broken_rule_is_named_with_its_rows(
    tmp_path: Path, columns: dict[str, list[object]], rule: str, sample: str
) -> None:
    home, spec, keys = Home(tmp_path), spec_of("labels"), ["label_ds", "impression_id", "task"]
    assert validate(home, WORLD, "labels.rows", suite_of(spec, WORLD), labels(), DAY, keys).result.success
    broken = validate(home, WORLD, "labels.rows", suite_of(spec, WORLD), labels(**columns), DAY, keys)
    found = broken_rows(broken)
    assert found.rule == rule
    assert sample in found.sample
    assert (site(home) / broken.page).is_file()


def pages(home: Home, *days: dict[str, str]) -> list[str]:
    """Pages of the same good labels under other names."""
    spec = spec_of("labels")
    return [
        validate(home, WORLD, "labels.rows", suite_of(spec, WORLD), labels(), day, ["task"], final=True).page
        for day in days
    ]


def index(home: Home) -> str:
    return (site(home) / "index.html").read_text(encoding="utf-8")


def test_the_same_audit_again_gives_the_same_page_and_stored_result(tmp_path: Path) -> None:
    home = Home(tmp_path / "a site of mine")
    first, again, other = pages(home, *({"2024-03-07": content} for content in ("one", "one", "other")))
    assert first == again != other
    assert first in index(home) and other in index(home)
    assert len(list((home.root / "quality" / "results").rglob("*.json"))) == 2


def test_the_index_lists_the_newest_days_and_an_old_day_has_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "LISTED", 2)
    home = Home(tmp_path)
    made = pages(home, {"2024-03-09": "a"}, {"2024-03-08": "b"}, {"2024-03-07": "c"})
    assert [page in index(home) for page in made] == [True, True, False]
    assert all((site(home) / page).is_file() for page in made)
