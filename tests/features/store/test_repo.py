"""Applying, recording and opening the store; nothing here needs Spark."""

from pathlib import Path

import pytest
import yaml

from features.errors import GemlineError
from features.home import Home
from features.store.definitions import ONLINE_SERVICE, SERVICE, definitions, digest, view_specs
from features.store.repo import (
    ONLINE_SETTING,
    StoreStale,
    applied_digest,
    apply,
    feature_store,
    repo_settings,
)
from features.worlds import load_world


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "tiny")


def test_an_unapplied_store_says_what_to_run(home: Home) -> None:
    with pytest.raises(StoreStale, match=r"never applied; materialize the asset tiny/feature_store .*python -m"):
        feature_store(load_world("tiny"), home)


def test_apply_registers_everything_and_changes_nothing_the_second_time(home: Home) -> None:
    world = load_world("tiny")
    first = apply(world, home)
    written = (home.registry / "registry.db").stat().st_mtime_ns
    assert apply(world, home) == first == applied_digest(home) == digest(world, home.tables)
    assert (home.registry / "registry.db").stat().st_mtime_ns == written
    store = feature_store(world, home)
    assert {view.name for view in store.list_feature_views()} == set(view_specs(world))
    assert {service.name for service in store.list_feature_services()} == {SERVICE, ONLINE_SERVICE}


def test_changed_declarations_are_refused_until_applied(home: Home) -> None:
    world = load_world("tiny")
    apply(world, home)
    wider = world.model_copy(update={"statistics": world.statistics.model_copy(update={"windows": (1, 2)})})
    with pytest.raises(StoreStale, match="other declarations"):
        feature_store(wider, home)
    apply(wider, home)
    names = {field.name for field in feature_store(wider, home).get_feature_view("user_stats").features}
    assert "user_events_2d" in names and "user_events_3d" not in names


def test_the_feast_command_finds_its_settings(home: Home) -> None:
    world = load_world("tiny")
    apply(world, home)
    settings = yaml.safe_load((home.registry / "feature_store.yaml").read_text())
    assert settings == repo_settings(world, home)
    assert settings["project"] == "tiny" and settings["entity_key_serialization_version"] == 3


def test_redis_is_a_setting(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ONLINE_SETTING, "redis://127.0.0.1:6399")
    online = repo_settings(load_world("tiny"), home)["online_store"]
    assert online == {"type": "redis", "connection_string": "127.0.0.1:6399"}
    monkeypatch.setenv(ONLINE_SETTING, "memcached://there")
    with pytest.raises(GemlineError, match="expected redis://host:port"):
        repo_settings(load_world("tiny"), home)


def test_every_view_has_one_entity_a_description_an_owner_and_two_times(tmp_path: Path) -> None:
    world = load_world("complete_journey")
    declared = definitions(world, tmp_path, {"user_stats": 3})
    for view in declared.views.values():
        assert len(view.entity_columns) == 1
        assert view.description and view.owner and view.tags["world"] == "complete_journey"
        source = view.batch_source
        assert (source.timestamp_field, source.created_timestamp_column) == (
            "event_timestamp",
            "available_ts",
        )
        # a partition column would be compared with UTC dates
        assert not source.date_partition_column
    assert declared.views["user_stats"].ttl == world.stats_ttl
    assert declared.views["user_stats"].batch_source.table_format.properties["versionAsOf"] == "3"
    assert "versionAsOf" not in declared.views["ad_stats"].batch_source.table_format.properties


def test_sequences_are_served_but_not_part_of_an_example(tmp_path: Path) -> None:
    declared = definitions(load_world("tiny"), tmp_path)
    views = {name: {p.name for p in service.feature_view_projections} for name, service in declared.services.items()}
    assert "user_recent" not in views[SERVICE]
    assert views[ONLINE_SERVICE] - views[SERVICE] == {"user_recent"}
