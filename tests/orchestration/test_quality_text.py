"""`gemline quality`: "checked and good", "nothing to check" and red are told apart (B06)."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from features.errors import QualityFailed
from orchestration.cli import main
from orchestration.resources import WorldResource
from tests.features.tables.test_tables import CLOSED, DAY, impressions

pytestmark = pytest.mark.assets

RED = "2024-03-10"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMLINE_HOME", str(tmp_path))


def asked(*options: str) -> str:
    result = CliRunner().invoke(main, ["quality", "--world", "tiny", *options])
    return result.output


def test_a_world_without_audits_says_what_to_run() -> None:
    assert "nothing of world tiny was audited yet; run `gemline run` first" in asked()


def test_verdicts_of_a_day() -> None:
    tables = WorldResource(world_name="tiny").tables()
    tables.publish("impressions", impressions(tables.spark, DAY, 1500), [DAY])
    tables.publish("impressions", impressions(tables.spark, CLOSED, 0), [CLOSED])
    with pytest.raises(QualityFailed):
        tables.publish("impressions", impressions(tables.spark, RED, 0), [RED])
    closed = asked("--day", CLOSED).splitlines()
    assert closed[0].split() == ["impressions", "closed", "nothing", "to", "check"]
    # the newest audited day, unless one is asked for
    red = asked().splitlines()[0]
    assert f"failed   0 rows: expect_table_row_count_to_be_between: 0 rows for {RED}" in red
    good = asked("--day", DAY).splitlines()
    assert good[0].split()[:4] == ["impressions", "passed", "1,500", "rows"]
    pages = [line.removeprefix("  see ") for line in good if line.startswith("  see ")]
    assert pages and all(Path(page).is_file() for page in pages)
    assert good[-1] == f"data docs: {tables.home.root / 'quality' / 'site' / 'index.html'}"
    assert "nothing of 2024-03-01 was audited; the newest audited day is 2024-03-10" in asked("--day", "2024-03-01")
