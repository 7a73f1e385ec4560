"""Restating a day by the graph: what is named, what it costs, and that `gemline rebuild` leaves nothing stale."""

import json
import shutil
from pathlib import Path

import dagster as dg
import pytest
import yaml
from click.testing import CliRunner

from features.tables.lineage import windows_of
from features.worlds.load import SHIPPED, add_world, load_world
from orchestration.cli import main
from orchestration.definitions import build
from orchestration.rebuilding import told
from orchestration.resources import WorldResource
from orchestration.running import execute, first_failure
from orchestration.staleness import staleness
from tests.orchestration.conftest import COLD, FIRST, SECOND

pytestmark = pytest.mark.assets
TINY_LOG = SHIPPED.parent / "sources" / "tiny" / "log"


@pytest.fixture
def own_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A world `own`: tiny, on a log that a test may change."""
    monkeypatch.setenv("GEMLINE_HOME", str(tmp_path / "home"))
    shutil.copytree(TINY_LOG, tmp_path / "log")
    raw = yaml.safe_load((SHIPPED / "tiny.yaml").read_text())
    raw["name"] = "own"
    raw["source"]["options"]["path"] = str(tmp_path / "log")
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(raw))
    add_world(tmp_path / "own.yaml")
    return tmp_path / "log"


@pytest.mark.long
def test_a_restated_day_names_what_is_stale_and_rebuilding_ends_it(
    own_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text("")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    defs, tables = build("own"), WorldResource(world_name="own").tables()
    with dg.DagsterInstance.get() as instance:
        result = execute(defs, "tables_job", instance, first=FIRST, last=SECOND)
        assert result.success, first_failure(result)
        assert not staleness(tables).days

        # the log of the second day is delivered again without one user's events and with a damaged row
        lines = (own_log / "events.jsonl").read_text().splitlines()
        user = next(json.loads(line)["user"] for line in lines if f'"received_at": "{SECOND}' in line)
        kept = [line for line in lines if json.loads(line)["user"] != user]
        (own_log / "events.jsonl").write_text("\n".join(['{"user": 1, "ad": "x", "kind": "nap"}', *kept]) + "\n")
        capsys.readouterr()
        again = execute(defs, "ingest_job", instance, partition_key=SECOND)
        assert again.success, first_failure(again)
    said = capsys.readouterr().out
    assert f"events of {SECOND} was restated" in said
    assert f"user_stats of {SECOND}: events restated - 1 day," in said
    assert "to make them again: gemline rebuild --world own" in said
    assert "rows fewer than this day had until now" in said

    shown = CliRunner().invoke(main, ["quality", "--world", "own", "--day", SECOND])
    assert shown.exit_code == 0, shown.output
    assert "warning: rows_lost: rows:" in shown.output
    assert "refused: 1 rows of events, events.jsonl:" in shown.output
    page = Path(shown.output.strip().splitlines()[-1].removeprefix("data docs: "))
    assert page.is_file()

    stale = {(day.table, day.ds) for day in staleness(tables).days}
    assert {("user_history", SECOND), ("user_stats", SECOND)} <= stale
    # what is known as of the second day only: its labels and examples do not follow from its events
    assert ("examples", SECOND) not in stale
    made = CliRunner().invoke(main, ["rebuild", "--world", "own", "--yes"])
    assert made.exit_code == 0, made.output
    assert "about" in made.output and " s\n" in made.output
    assert made.output.strip().endswith("nothing is stale: every table and model follows from what is published")


def test_a_model_of_superseded_content_is_named(judged: Path) -> None:
    tables = WorldResource(world_name="tiny").tables()
    assert not staleness(tables).models
    rows = tables.read("examples", [SECOND])
    gone = rows.agg({"impression_id": "min"}).first()[0]
    tables.publish("examples", rows.where(rows["impression_id"] != gone), [SECOND])
    found = staleness(tables).models
    assert [(model.line, model.ds, model.because) for model in found] == [("gem", COLD, ("examples",))]
    assert f"gem of {COLD}" in told(staleness(tables), "tiny")
    assert "trained on superseded examples" in told(staleness(tables), "tiny")


@pytest.mark.parametrize("table", ["user_stats", "ad_stats", "user_history", "user_recent", "examples", "labels"])
def test_a_table_reads_what_its_windows_declare_and_nothing_else(
    featured: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that no window declares would leave a day fresh that is stale."""
    from features import examples, history, labels, stats

    functions = {
        "user_stats": stats.user_stats,
        "ad_stats": stats.ad_stats,
        "user_history": history.user_history,
        "user_recent": history.user_recent,
        "examples": examples.examples,
        "labels": labels.labels,
    }
    tables, world, read = WorldResource(world_name="tiny").tables(), load_world("tiny"), {}
    required = type(tables).require

    def noted(self: object, name: str, days: list[str]) -> None:
        read.setdefault(name, set()).update(days)
        required(self, name, days)  # type: ignore[arg-type]

    monkeypatch.setattr(type(tables), "require", noted)
    functions[table](tables.spark, world, [COLD], tables)
    windows = windows_of(table, world, COLD)
    assert read.keys() == windows.keys()
    for name, days in read.items():
        assert windows[name][0] <= min(days) and max(days) <= windows[name][1], name
