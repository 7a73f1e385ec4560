"""Applying, recording and opening the store; nothing here needs Spark."""

from pathlib import Path

import pytest
import yaml

from features.errors import GemlineError
from features.home import Home
from features.store.definitions import definitions, digest, view_specs
from features.store.repo import (
    ONLINE_SETTING,
    StoreStale,
    applied_digest,
    apply,
    feature_store,
    repo_settings,
)
from features.store.versions import current, features_of, recorded, with_current
from features.worlds import load_world
from features.worlds.schema import World

SERVICES = ["gem_v1", "gem_v1_online"]


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
    assert sorted(service.name for service in store.list_feature_services()) == SERVICES


def with_windows(*days: int) -> World:
    world = load_world("tiny")
    return world.model_copy(update={"statistics": world.statistics.model_copy(update={"windows": days})})


def test_changed_declarations_are_refused_until_applied(home: Home) -> None:
    world = load_world("tiny")
    apply(world, home)
    wider = with_windows(1, 2)
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


def test_each_schema_version_has_services_as_long_as_its_features_are_declared(home: Home) -> None:
    world, wider, other = load_world("tiny"), with_windows(1, 3, 7), with_windows(1)

    def services() -> list[str]:
        store = feature_store(applied, home)
        return sorted(service.name for service in store.list_feature_services())

    for applied, number, names in (
        (world, 1, SERVICES),
        # a feature more: the old version still stands beside the new one
        (wider, 2, [*SERVICES, "gem_v2", "gem_v2_online"]),
        # two features less: what was asked with them is gone
        (other, 3, ["gem_v3", "gem_v3_online"]),
        # back again, under its old number, and what was widened of it stays away
        (world, 1, [*SERVICES, "gem_v3", "gem_v3_online"]),
    ):
        apply(applied, home)
        assert (current(applied, home).number, services()) == (number, names)
    store = feature_store(world, home)
    projected = {view.name: view.features for view in store.get_feature_service("gem_v3").feature_view_projections}
    assert {feature.name for feature in projected["user_stats"]} == set(features_of(other)["user_stats"])
    assert store.get_feature_service("gem_v3").tags["schema_version"] == "3"


def test_views_that_are_declared_no_more_leave_the_registry(home: Home) -> None:
    world = load_world("tiny")
    apply(world, home)
    bare = world.model_copy(update={"users": world.users.model_copy(update={"attributes": ()})})
    apply(bare, home)
    assert "user_attributes" not in {view.name for view in feature_store(bare, home).list_feature_views()}


def test_a_crash_while_applying_is_mended_by_applying_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    world = load_world("tiny")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        apply(world, home)
    monkeypatch.undo()
    with pytest.raises(StoreStale, match="never applied"):
        feature_store(world, home)
    apply(world, home)
    assert [version.number for version in recorded(home)] == [1]


def test_redis_is_a_setting(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ONLINE_SETTING, "redis://127.0.0.1:6399")
    online = repo_settings(load_world("tiny"), home)["online_store"]
    assert online["type"] == "features.store.newest_redis.NewestRedisOnlineStore"
    assert online["connection_string"] == "127.0.0.1:6399,db=0"
    monkeypatch.setenv(ONLINE_SETTING, "redis://there/3")
    assert repo_settings(load_world("tiny"), home)["online_store"]["connection_string"] == "there:6379,db=3"
    for wrong in ("memcached://there", "redis://there/three"):
        monkeypatch.setenv(ONLINE_SETTING, wrong)
        with pytest.raises(GemlineError, match="expected redis://host:port"):
            repo_settings(load_world("tiny"), home)


@pytest.mark.parametrize("name", ["complete_journey", "synthetic_ads", "tiny"])
def test_everything_is_described_owned_and_tagged(name: str, tmp_path: Path) -> None:
    world = load_world(name).model_copy(update={"owner": "team:ads"})
    declared = definitions(world, tmp_path, with_current(world, []))
    for entry in declared.all():
        assert entry.description and (entry.owner, entry.tags["world"]) == ("team:ads", name), entry.name
    for view in declared.views.values():
        for field in view.schema:
            assert field.description.endswith(".") and field.tags["unit"], (view.name, field.name)


def test_a_world_file_describes_its_attributes(tmp_path: Path) -> None:
    world = load_world("tiny")
    users = world.users.model_copy(update={"descriptions": {"country": "Where the account was opened."}})
    declared = definitions(world.model_copy(update={"users": users}), tmp_path, [])
    fields = {field.name: field.description for field in declared.views["user_attributes"].features}
    assert fields["country"] == "Where the account was opened."
    assert fields["age_band"] == "`age_band` as the log says it."
    with pytest.raises(ValueError, match=r"\['city'\] are no attributes"):
        type(users)(attributes=("country",), descriptions={"city": "?"})


def test_every_view_has_one_entity_and_two_times(tmp_path: Path) -> None:
    world = load_world("complete_journey")
    declared = definitions(world, tmp_path, with_current(world, []), {"user_stats": 3})
    for view in declared.views.values():
        assert len(view.entity_columns) == 1
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
    world = load_world("tiny")
    declared = definitions(world, tmp_path, with_current(world, []))
    views = {name: {p.name for p in service.feature_view_projections} for name, service in declared.services.items()}
    assert "user_recent" not in views["gem_v1"]
    assert views["gem_v1_online"] - views["gem_v1"] == {"user_recent"}
