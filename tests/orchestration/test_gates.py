"""B07: a failed check stops everything downstream of its day, however a run is launched, and says why."""

import shutil
from datetime import datetime
from pathlib import Path

import dagster as dg
import pytest
import yaml

from features.days import day_of
from features.worlds.load import SHIPPED, add_world, load_world
from orchestration.definitions import build
from orchestration.publishing import asset_key
from orchestration.resources import WorldResource
from orchestration.running import execute, first_failure
from orchestration.schedules import next_replay_day
from tests.orchestration.conftest import FIRST, SECOND

pytestmark = pytest.mark.assets
TINY_LOG = SHIPPED.parent / "sources" / "tiny" / "log"


@pytest.fixture
def broken_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A world `broken`: tiny, but the second day's impressions did not arrive."""
    monkeypatch.setenv("GEMLINE_HOME", str(tmp_path / "home"))
    log = tmp_path / "log"
    shutil.copytree(TINY_LOG, log)
    header, *rows = (log / "impressions.csv").read_text().splitlines()
    place = header.split(",").index("shown_at")
    kept = [row for row in rows if local_day(row.split(",")[place]) != SECOND]
    assert len(kept) < len(rows)
    (log / "impressions.csv").write_text("\n".join([header, *kept]) + "\n")
    raw = yaml.safe_load((SHIPPED / "tiny.yaml").read_text())
    raw["name"] = "broken"
    raw["source"]["options"]["path"] = str(log)
    (tmp_path / "broken.yaml").write_text(yaml.safe_dump(raw))
    add_world(tmp_path / "broken.yaml")
    return log


def local_day(stamp: str) -> str:
    return day_of(datetime.fromisoformat(stamp), load_world("tiny").timezone)


def test_a_red_day_stops_what_depends_on_it(broken_log: Path, instance: dg.DagsterInstance) -> None:
    world = load_world("broken")
    defs, tables = build("broken"), WorldResource(world_name="broken").tables()
    impressions = asset_key(world, "impressions")

    # one run over a range: the day before the red one is published, the red one and what follows it are not
    result = execute(defs, "tables_job", instance, first=FIRST, last=SECOND)
    assert not result.success
    assert f"0 rows for {SECOND}" in first_failure(result)
    assert list(tables.readable_days("impressions")) == [FIRST]
    assert instance.get_materialized_partitions(impressions) == {FIRST}
    assert instance.get_materialized_partitions(asset_key(world, "labels")) == set()
    check = dg.AssetCheckKey(impressions, "quality")
    history = instance.event_log_storage.get_asset_check_execution_history(check, limit=10)
    by_day = {record.partition: record.status.value for record in history if record.status.value != "PLANNED"}
    assert by_day[FIRST] == "SUCCEEDED"
    assert by_day[SECOND] == "FAILED"
    red = next(record.evaluation for record in history if record.partition == SECOND and record.evaluation)
    assert red.severity == dg.AssetCheckSeverity.ERROR
    assert red.metadata["rule"].value == "expect_table_row_count_to_be_between"
    assert f"0 rows for {SECOND}" in str(red.metadata["sample"].value)

    # launched alone, a downstream asset refuses and names the rule
    alone = execute(defs, "daily_job", instance, partition_key=SECOND, selection=[asset_key(world, "labels")])
    assert not alone.success
    assert "audit failed on expect_table_row_count_to_be_between" in first_failure(alone)

    # the schedule asks for the red day again, not for the one after it
    assert next_replay_day(instance, world) == SECOND

    # mended, the day goes through, and only it is new
    shutil.copy(TINY_LOG / "impressions.csv", broken_log / "impressions.csv")
    before = tables.readable_days("impressions")[FIRST]
    mended = execute(defs, "ingest_job", instance, first=FIRST, last=SECOND)
    assert mended.success, first_failure(mended)
    assert tables.readable_days("impressions")[FIRST] == before
    assert list(tables.readable_days("impressions")) == [FIRST, SECOND]
