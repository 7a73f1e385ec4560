"""B25: days of 23 and 25 hours lose and double nothing, and the order of a backfill does not matter."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
import yaml
from pyspark.sql import functions as F

from features.days import EPOCH, day_of, day_range
from features.home import Home
from features.sources.base import extract
from features.spark import session
from features.tables import Tables
from features.worlds.load import SHIPPED, add_world, load_world
from features.worlds.schema import World
from orchestration.definitions import build
from orchestration.partitions import day_axis
from orchestration.publishing import asset_key
from orchestration.resources import WorldResource
from orchestration.running import execute, first_failure
from tests.orchestration.conftest import COLD, FIRST

pytestmark = pytest.mark.assets


def berlin(tmp_path: Path, first: str, last: str) -> World:
    """A world in Berlin's time whose log has one impression in every hour, half past, from `first` to `last`.

    On the long day the local clock shows 02:30 twice.
    """
    at, end = datetime.fromisoformat(f"{first}T00:30:00+00:00"), datetime.fromisoformat(f"{last}T23:59:00+00:00")
    lines = ["impression_id,shown_at,request_id,user,ad,placement,slot,device,format"]
    while at < end:
        # a surface of which every row is kept
        lines.append(f"{len(lines)},{at.isoformat()},1,1,1,story,1,1,wide")
        at += timedelta(hours=1)
    (tmp_path / "impressions.csv").write_text("\n".join(lines) + "\n")
    log = SHIPPED.parent / "sources" / "tiny" / "log"
    for name in ("outcomes.csv", "users.csv", "ads.csv", "events.jsonl"):
        (tmp_path / name).write_bytes((log / name).read_bytes())
    raw = yaml.safe_load((SHIPPED / "tiny.yaml").read_text())
    del raw["demo"]
    raw |= {"name": "berlin", "timezone": "Europe/Berlin", "first_day": first, "last_day": last, "closed_days": []}
    raw["source"]["options"]["path"] = str(tmp_path)
    (tmp_path / "berlin.yaml").write_text(yaml.safe_dump(raw))
    return add_world(tmp_path / "berlin.yaml")


@pytest.mark.parametrize(
    ("first", "long", "last", "hours"),
    [("2026-03-28", "2026-03-29", "2026-03-30", 23), ("2026-10-24", "2026-10-25", "2026-10-26", 25)],
)
def test_each_hour_is_in_one_day_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, long: str, last: str, hours: int
) -> None:
    monkeypatch.setenv("GEMLINE_HOME", str(tmp_path / "home"))
    world = berlin(tmp_path, first, last)
    axis = day_axis(world)
    keys = list(axis.get_partition_keys(current_time=datetime(2027, 1, 1, tzinfo=UTC)))
    assert keys == day_range(first, last)
    window = axis.time_window_for_partition_key(long)
    assert window.end.timestamp() - window.start.timestamp() == hours * 3600

    def stamped(days: list[str]) -> dict[int, datetime]:
        rows = extract(session(), world, days).tables["impressions"]
        stamps = rows.select("impression_id", F.unix_micros("request_ts")).collect()
        return {number: EPOCH + timedelta(microseconds=at) for number, at in stamps}

    apart = {ds: stamped([ds]) for ds in keys}
    assert len(apart[long]) == hours
    assert {day_of(stamp, "Europe/Berlin") for stamp in apart[long].values()} == {long}
    together = stamped(keys)
    assert sum(map(len, apart.values())) == len(together)
    assert {number for rows in apart.values() for number in rows} == set(together)


ROLLING = ("user_stats", "user_history", "user_recent")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_backfill_newest_first_by_four_workers_equals_one_run(ingested: Path, featured_root: Path) -> None:
    """Four days, one of them of 23 hours; a day whose predecessor is missing stops with what to do, and runs again."""
    days, world = day_range(FIRST, COLD), load_world("tiny")
    newest_first = WorldResource(world_name="tiny").tables()
    refusals: list[str] = []
    with dg.DagsterInstance.local_temp() as instance, ThreadPoolExecutor(4) as workers:

        def attempt(table: str, ds: str) -> bool:
            selection = [asset_key(world, table)]
            result = execute(build("tiny"), "features_job", instance, partition_key=ds, selection=selection)
            if not result.success:
                refusals.append(first_failure(result))
            return result.success

        waiting = [(table, ds) for ds in days[::-1] for table in ROLLING]
        for _ in days:
            done = list(workers.map(attempt, *zip(*waiting, strict=True)))
            waiting = [one for one, well in zip(waiting, done, strict=True) if not well]
            if not waiting:
                break
    assert waiting == []
    assert refusals and all("was never published; materialize it first" in text for text in refusals)
    together = Tables(session(), world, Home(featured_root / "tiny"))
    for table in ROLLING:
        assert newest_first.readable_days(table) == together.readable_days(table), table
        assert list(newest_first.readable_days(table)) == days
