"""B07: a failed check stops everything downstream of its day, however a run is launched, and says why."""

import shutil
from pathlib import Path

import dagster as dg
import pytest
import yaml

from features.worlds.load import SHIPPED, add_world, load_world
from orchestration.definitions import build
from orchestration.publishing import asset_key
from orchestration.resources import WorldResource
from orchestration.running import execute, first_failure
from orchestration.schedules import next_replay_day
from tests.orchestration.conftest import FIRST, SECOND

pytestmark = pytest.mark.assets


@pytest.fixture
def broken_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A world `broken`: tiny, but one outcome of the second day has an unknown kind."""
    monkeypatch.setenv("GEMLINE_HOME", str(tmp_path / "home"))
    log = tmp_path / "log"
    shutil.copytree(SHIPPED.parent / "sources" / "tiny" / "log", log)
    lines = (log / "outcomes.csv").read_text().splitlines()
    place = next(number for number, line in enumerate(lines) if SECOND in line and ",click," in line)
    lines[place] = lines[place].replace(",click,", ",sneeze,")
    (log / "outcomes.csv").write_text("\n".join(lines) + "\n")
    raw = yaml.safe_load((SHIPPED / "tiny.yaml").read_text())
    raw["name"] = "broken"
    raw["source"]["options"]["path"] = str(log)
    (tmp_path / "broken.yaml").write_text(yaml.safe_dump(raw))
    add_world(tmp_path / "broken.yaml")
    return log


def test_a_red_day_stops_what_depends_on_it(broken_log: Path, instance: dg.DagsterInstance) -> None:
    world = load_world("broken")
    defs, tables = build("broken"), WorldResource(world_name="broken").tables()
    outcomes, impressions = asset_key(world, "outcomes"), asset_key(world, "impressions")

    # one run over a range: the day before the red one is published, the red one and what follows it are not
    result = execute(defs, "tables_job", instance, first=FIRST, last=SECOND)
    assert not result.success
    assert "event_type: sneeze" in first_failure(result)
    assert list(tables.readable_days("outcomes")) == [FIRST]
    assert instance.get_materialized_partitions(outcomes) == {FIRST}
    assert instance.get_materialized_partitions(impressions) == set()
    history = instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(outcomes, "quality"), limit=10
    )
    by_day = {record.partition: record.status.value for record in history if record.status.value != "PLANNED"}
    assert by_day[FIRST] == "SUCCEEDED"
    assert by_day[SECOND] == "FAILED"

    # launched alone, a downstream asset refuses and names the rule
    assert execute(defs, "ingest_job", instance, partition_key=FIRST).success
    alone = execute(defs, "daily_job", instance, partition_key=SECOND, selection=[asset_key(world, "labels")])
    assert not alone.success
    assert "expect_column_values_to_be_in_set" in first_failure(alone)

    # the schedule asks for the red day again, not for the one after it
    assert next_replay_day(instance, world) == SECOND

    # mended, the same range goes through
    text = (broken_log / "outcomes.csv").read_text().replace(",sneeze,", ",click,")
    (broken_log / "outcomes.csv").write_text(text)
    assert execute(defs, "ingest_job", instance, first=FIRST, last=SECOND).success
    assert list(tables.readable_days("outcomes")) == [FIRST, SECOND]
