"""The generated log: the same bytes again, and every trouble that it promises."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from features.sources.tiny.generate import DAYS, SILENT, Log, generate, write

LOG = Path(__file__).parents[3] / "features" / "sources" / "tiny" / "log"
FILES = ("impressions.csv", "outcomes.csv", "events.jsonl", "users.csv", "ads.csv")


@pytest.fixture(scope="module")
def log() -> Log:
    return generate()


def _at(row: dict, column: str = "at") -> datetime:
    return datetime.fromisoformat(row[column])


def _shown(log: Log) -> dict[tuple, dict]:
    return {(row["request_id"], row["ad"]): row for row in log.impressions}


def test_the_committed_files_are_what_the_generator_writes(tmp_path: Path, log: Log) -> None:
    write(tmp_path, log)
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (LOG / name).read_bytes(), name
    assert sum((LOG / name).stat().st_size for name in FILES) < 300_000


def test_another_seed_gives_another_log(log: Log) -> None:
    assert generate(8).impressions != log.impressions


def test_every_day_and_surface_has_eight_clicks_in_their_window(log: Log) -> None:
    shown, counts = _shown(log), {}
    for row in log.outcomes:
        seen = shown[(row["request_id"], row["ad"])]
        if row["kind"] == "click":
            assert timedelta(0) <= _at(row) - _at(seen, "shown_at") <= timedelta(minutes=50)
            assert row["received_at"][:10] == seen["shown_at"][:10]
            key = (seen["shown_at"][:10], seen["placement"])
            counts[key] = counts.get(key, 0) + 1
    assert set(counts) == {(ds, surface) for ds in DAYS for surface in ("feed", "story")}
    assert min(counts.values()) >= 8


def test_nothing_happens_or_arrives_on_the_closed_day(log: Log) -> None:
    stamps = [row[name] for row in log.impressions for name in ("shown_at",)]
    stamps += [row[name] for row in [*log.outcomes, *log.events] for name in ("at", "received_at")]
    stamps += [row["known_from"] for row in [*log.users, *log.ads]]
    assert "2024-03-09" not in {stamp[:10] for stamp in stamps}
    assert max(stamps)[:10] <= DAYS[-1]


def test_late_and_too_late_purchases_are_there(log: Log) -> None:
    shown = _shown(log)
    buys = [row for row in log.outcomes if row["kind"] == "buy"]
    waits = [_at(row) - _at(shown[(row["request_id"], row["ad"])], "shown_at") for row in buys]
    assert sum(wait > timedelta(hours=12) for wait in waits) == 1
    assert all(_at(row, "received_at") - _at(row) <= timedelta(hours=6) for row in buys)
    assert any(row["received_at"][:10] > row["at"][:10] for row in buys)


def test_odd_users_and_corrections_are_there(log: Log) -> None:
    assert [row["user"] for row in log.impressions].count("") == 1
    assert not {row["user"] for row in log.events} & set(SILENT)
    assert {row["user"] for row in log.impressions} >= {*SILENT, 2**62 + 1, 2**62 + 2}
    for rows, key in ((log.users, "user"), (log.ads, "ad")):
        twice = [row for row in rows if [other[key] for other in rows].count(row[key]) == 2]
        assert len(twice) == 2 and twice[0]["known_from"] < twice[1]["known_from"]
    late = [row for row in log.events if _at(row, "received_at") - _at(row) >= timedelta(days=1)]
    assert len(late) == 1


def test_some_clicks_share_the_second_of_their_request_and_some_requests_are_early(log: Log) -> None:
    shown = _shown(log)
    same = [row for row in log.outcomes if row["at"] == shown[(row["request_id"], row["ad"])]["shown_at"]]
    assert len(same) >= 5
    assert {row["shown_at"][:10] for row in log.impressions if row["shown_at"][11:16] == "00:10"} == set(DAYS)
