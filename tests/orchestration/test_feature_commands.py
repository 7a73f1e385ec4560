"""`gemline features`: what is declared, and what is known of users and ads, with ids as the log has them."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from features.clock import advance
from features.home import Home
from features.store.definitions import view_specs
from features.store.online import write_rows
from features.store.repo import apply, feature_store
from features.transform.hashing import string_id
from features.worlds import load_world
from orchestration.cli import main

WORLD = load_world("tiny")
STAMP = datetime(2024, 3, 10, 12, tzinfo=UTC)
TWIN = 2**62 + 1
"""A double cannot tell it from the next id."""


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["features", *arguments, "--world", "tiny"])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("GEMLINE_HOME", str(tmp_path))
    home = Home.of("tiny")
    apply(WORLD, home)
    return home


def test_list_names_views_and_services(home: Home) -> None:
    shown = ask("list").output
    assert "feature store of world tiny, owner gemline" in shown
    for spec in view_specs(WORLD).values():
        assert f"  {spec.name} " in shown and spec.description in shown
    assert "gem_v1 " in shown and "gem_v1_online " in shown


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("user_stats", "user_events_3d"),
        ("user_stats:user_events_3d", "Events of the last 3 days, up to its end."),
        ("recent_event_us", "microseconds since 1970, UTC"),
        ("gem_v1", "schema version 1"),
        ("gem_v1_online", "user_recent: recent_event_us"),
    ],
)
def test_describe_says_what_is_declared(home: Home, name: str, said: str) -> None:
    assert said in ask("describe", name).output


def test_describe_keeps_the_history_out_of_an_examples_service(home: Home) -> None:
    assert "user_recent" not in ask("describe", "gem_v1").output


def test_what_is_not_declared_is_refused_with_what_is(home: Home) -> None:
    ended = ask("describe", "user_stats:moon")
    assert ended.exit_code == 1 and "no view, service or feature 'user_stats:moon'; known: user_stats" in ended.output


@pytest.mark.parametrize("command", [["list"], ["describe", "user_stats"]])
def test_a_store_that_was_never_applied_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("GEMLINE_HOME", str(tmp_path))
    ended = ask(*command)
    assert ended.exit_code == 1 and "was never applied; materialize the asset tiny/feature_store" in ended.output


def test_query_takes_ids_as_the_log_has_them(home: Home) -> None:
    """B02: text by its hash, numbers exactly."""
    spec = view_specs(WORLD)["user_stats"]
    ids = [string_id("alice@example.org"), TWIN, TWIN + 1]
    columns = {"user_id": ids, "event_timestamp": [STAMP] * 3, "available_ts": [STAMP] * 3}
    write_rows(feature_store(WORLD, home), spec, pa.table(columns | dict.fromkeys(spec.features, (1.5, 2.5, 3.5))))
    advance(home, "2024-03-10")
    for user, value in {"alice@example.org": "1.5", str(TWIN): "2.5", str(TWIN + 1): "3.5"}.items():
        line = next(one for one in ask("query", "--user", user).output.splitlines() if "user_events_1d" in one)
        assert line.split()[-1] == value
    assert "user_stats: {'absent': 1}" in ask("query", "--user", "bob@example.org").output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "name a --user or an --ad"),
        (["--user", " "], "--user is blank"),
        (["--user", "1", "--at", "noon"], "--at noon is no instant"),
        (["--user", "1", "--at", "2024-03-10T12:00:00"], "--at 2024-03-10T12:00:00 has no time zone"),
    ],
)
def test_questions_that_cannot_be_answered(home: Home, arguments: list[str], sentence: str) -> None:
    ended = ask("query", *arguments)
    assert ended.exit_code == 1 and sentence in ended.output


@pytest.mark.assets
@pytest.mark.timeout(600)
def test_query_at_an_instant_says_what_was_known_then(featured: Path) -> None:
    apply(WORLD, Home.of("tiny"))
    shown = ask("query", "--user", str(TWIN), "--ad", "501", "--at", "2024-03-09T12:00:00-05:00").output
    assert "historical features as of 2024-03-09T12:00:00-05:00" in shown
    value = {line.split()[0]: line.split()[-1] for line in shown.splitlines() if line.strip()}
    assert value["user_id"] == str(TWIN) and float(value["ad_events_3d"]) > 0
