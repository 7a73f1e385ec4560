"""Facts are gathered whatever is missing; what is missing is said."""

import json
from pathlib import Path

import pytest
from pyarrow import parquet

from features.errors import GemlineError
from features.home import Home
from features.tables import ModelDecision
from features.worlds import World
from orchestration.reporting.facts import NOT_JUDGED, gather, newest_day
from serving import releases
from tests.orchestration.reporting.conftest import DS, HandTables, Writer, gate, good, judged, sliced


def released(home: Home, line: str, ds: str, digest: str) -> None:
    folder = home.checkpoints / line / ds / "attempt-000001"
    folder.mkdir(parents=True)
    releases.promote(home.releases, line, releases.Release(ds, digest, folder.relative_to(home.root).as_posix()))


def test_an_empty_home_is_reported_as_such(home: Home, world: World) -> None:
    facts = gather(None, home, world, DS)
    assert [line.name for line in facts.lines] == ["gem", "feed_click", "story_click"]
    for line in facts.lines:
        assert line.decision == NOT_JUDGED and line.reason == f"there is no evaluation of {line.name} of {DS}"
        assert line.live is None and line.moves == () and line.recorded is None
        assert line.lineage.note == "no model of that day is committed"
        assert line.series and all(series.points == () for series in line.series)
    assert "without the tables" in facts.data.gates_note and "without the tables" in facts.data.features_note
    assert facts.synthetic


def test_a_damaged_evaluation_leaves_the_line_unjudged_and_the_others_as_they_are(
    home: Home, world: World, write: Writer
) -> None:
    write("gem", "{")
    write("feed_click", judged("rejected", "click: worse"))
    gem, feed, _ = gather(None, home, world, DS).lines
    assert gem.decision == NOT_JUDGED and "cannot be read" in gem.reason
    assert (feed.decision, feed.reason) == ("rejected", "click: worse")


def test_series_hold_every_judged_day_up_to_the_day_and_say_what_a_day_lacks(
    home: Home, world: World, write: Writer
) -> None:
    write("gem", judged(), "2024-03-07")
    write("gem", judged(served=[]), "2024-03-08")
    write("gem", "{", "2024-03-09")
    write("gem", judged(served=[sliced("click", "feed", good())]))
    write("gem", judged(), "2024-03-11")
    (series,) = gather(None, home, world, DS).lines[0].series
    assert [point.ds for point in series.points] == ["2024-03-07", "2024-03-08", "2024-03-09", DS]
    first, second, third, fourth = series.points
    assert first.slice and first.slice.value is None and first.slice.estimates["ne"].value == 0.9123
    assert second.slice is None and second.note == "nothing became due"
    assert third.slice is None and "cannot be read" in third.note
    assert fourth.slice is None, "a surface's row is not that of all surfaces"


def test_a_vertical_without_a_primary_task_shows_all_of_its_own(home: Home, world: World) -> None:
    buys = world.verticals[1].model_copy(update={"name": "buys", "tasks": ("buy",)})
    facts = gather(None, home, world.model_copy(update={"verticals": (buys,)}), DS)
    assert [series.task for series in facts.lines[1].series] == ["buy"]


def test_the_live_release_and_its_rollback_are_there(home: Home, world: World) -> None:
    released(home, "gem", "2024-03-08", "one")
    released(home, "gem", DS, "two")
    releases.rollback(home.releases, "gem", "calibration off")
    gem = gather(None, home, world, DS).lines[0]
    assert gem.live and gem.live.digest == "one"
    assert [(move.action, move.reason) for move in gem.moves][1:] == [
        ("promoted", ""),
        ("rolled_back", "calibration off"),
    ]


def test_a_damaged_pointer_is_said(home: Home, world: World) -> None:
    (home.releases / "gem").mkdir()
    (home.releases / "gem" / "live.json").write_text("{")
    assert "torn or not JSON" in gather(None, home, world, DS).lines[0].live_note


def test_lineage_is_that_of_the_newest_committed_attempt(home: Home, world: World) -> None:
    for attempt, digest in ((1, "first"), (2, "second"), (3, "unfinished")):
        folder = home.checkpoints / "gem" / DS / f"attempt-{attempt:06d}"
        folder.mkdir(parents=True)
        manifest = {"digest": digest, "parent": {"digest": "mother", "path": "x"}, "metrics": {"trained": 5}}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        if attempt < 3:
            (folder / "COMMITTED").touch()
    found = gather(None, home, world, DS).lines[0].lineage
    assert (found.digest, found.parent, found.trained, found.scored) == ("second", "mother", 5, None)


def test_a_torn_manifest_is_said(home: Home, world: World) -> None:
    folder = home.checkpoints / "gem" / DS / "attempt-000001"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{")
    (folder / "COMMITTED").touch()
    assert "cannot be read" in gather(None, home, world, DS).lines[0].lineage.note


def test_the_newest_verdict_of_a_table_counts_and_an_earlier_publish_stays_readable(home: Home, world: World) -> None:
    gates = [
        gate("labels"),
        gate("impressions", rows=10),
        gate("impressions", "failed", rows=8, rule="row_count", sample="8 of 10"),
        gate("events", "failed", rule="unique"),
        gate("users", ds="2024-03-08"),
        gate("predictions_feed_click"),
    ]
    data = gather(HandTables(home, gates, [], None), home, world, DS).data
    found = {entry.table: entry for entry in data.gates}
    assert list(found) == ["impressions", "events", "labels", "predictions_feed_click"]
    assert (found["impressions"].verdict, found["impressions"].rows, found["impressions"].readable) == (
        "failed",
        8,
        True,
    )
    assert not found["events"].readable
    assert "users" in data.silent and "labels" not in data.silent
    assert data.features_note == f"examples of {DS} was never published; materialize it first"


def test_quarantined_rows_are_those_of_the_day(home: Home, world: World, examples: str) -> None:
    for ds in (DS, "2024-03-08"):
        folder = home.tables / "quarantine_events" / f"ds={ds}"
        folder.mkdir(parents=True)
        rows = parquet.read_table(examples)
        parquet.write_table(rows if ds == DS else rows.slice(0, 1), folder / "part.parquet")
    tables = HandTables(home, [gate("impressions"), gate("events")], [], None)
    impressions, events = gather(tables, home, world, DS).data.gates
    assert (impressions.quarantined, events.quarantined) == (None, 4)


def test_features_are_profiled(home: Home, world: World, examples: str) -> None:
    data = gather(HandTables(home, [], [], (examples,)), home, world, DS).data
    assert data.examples == 4 and not data.features_note
    found = {feature.name: feature for feature in data.features}
    events = found["user_events_1d"]
    assert (events.missing, events.mean, events.low, events.high) == (0.5, 3.0, 2.0, 4.0)
    assert (found["ad_id"].missing, found["ad_id"].distinct) == (0.25, 2)
    empty = found["user_span_days"]
    assert (empty.missing, empty.mean, empty.note) == (1.0, None, "no value in any row")


def test_features_of_an_older_schema_and_of_an_empty_day(
    home: Home, world: World, examples: str, tmp_path: Path
) -> None:
    narrow = tmp_path / "narrow.parquet"
    parquet.write_table(parquet.read_table(examples).drop_columns(["ad_id"]), narrow)
    older = gather(HandTables(home, [], [], (str(narrow),)), home, world, DS).data
    assert {f.name: f.note for f in older.features}["ad_id"] == "no such column in these examples"
    empty = gather(HandTables(home, [], [], ()), home, world, DS).data
    assert empty.examples == 0 and {feature.note for feature in empty.features} == {"no rows"}


def test_the_ledger_says_what_was_recorded(home: Home, world: World, write: Writer) -> None:
    write("gem", judged())
    made = ModelDecision("gem", DS, "digest-1", "promoted", "", "[]", "checkpoints/x")
    gem, feed, _ = gather(HandTables(home, [], [made], None), home, world, DS).lines
    assert (gem.recorded, gem.judged_digest) == ("promoted", "digest-1")
    assert (feed.recorded, feed.judged_digest) == ("", "")


def test_the_newest_day_is_that_of_any_line(home: Home, world: World, write: Writer) -> None:
    with pytest.raises(GemlineError, match="no model of world tiny was judged yet"):
        newest_day(home, world)
    write("gem", judged(), "2024-03-08")
    write("story_click", judged(), DS)
    assert newest_day(home, world) == DS
