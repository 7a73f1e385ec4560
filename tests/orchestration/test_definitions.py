"""What the UI shows: every world loads, every asset explains itself, the schedule follows the world's clock."""

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
import yaml

from features.tables.specs import SPECS
from features.worlds import load_world
from features.worlds.load import SHIPPED, add_world
from orchestration import definitions
from orchestration.locations import write_workspace
from orchestration.publishing import asset_key
from orchestration.schedules import daily_retrain, retrain_day

WORLDS = ("complete_journey", "tiny")


@pytest.mark.parametrize("name", WORLDS)
def test_every_asset_explains_itself(name: str) -> None:
    graph, verticals = getattr(definitions, name).resolve_asset_graph(), load_world(name).verticals
    assert len(list(graph.materializable_asset_keys)) == 23 + 5 * len(verticals)
    groups = {"ingest", "features", "gem", "transfer", "solaris", "release", *(vertical.name for vertical in verticals)}
    for node in (graph.get(key) for key in graph.materializable_asset_keys):
        assert node.key.path[0] == name
        assert node.group_name in groups
        assert node.description
        assert node.owners
        assert node.kinds


@pytest.mark.parametrize("name", WORLDS)
def test_every_table_shows_its_gate(name: str) -> None:
    world = load_world(name)
    graph = getattr(definitions, name).resolve_asset_graph()
    checked = {key.asset_key for key in graph.asset_check_keys}
    assert {asset_key(world, table) for table in SPECS} <= checked
    assert asset_key(world, "gem_release") in checked


def test_an_unknown_world_is_no_code_location() -> None:
    with pytest.raises(AttributeError, match="no world 'atlantis'"):
        definitions.atlantis  # noqa: B018


def test_the_hyper_parameters_are_described() -> None:
    from orchestration.assets.gem import GemTraining

    fields = GemTraining.model_fields
    assert {"recipe", "overrides", "look_back", "processes", "seed"} <= set(fields)
    assert all(field.description for field in fields.values())


def test_a_replay_schedule_goes_day_by_day_and_ends_with_the_log(instance: dg.DagsterInstance) -> None:
    world, now = load_world("tiny"), datetime(2026, 1, 1, tzinfo=UTC)
    assert retrain_day(world, instance, now) == "2024-03-07"
    for ds in ("2024-03-07", "2024-03-08"):
        instance.report_runless_asset_event(dg.AssetMaterialization(asset_key(world, "impressions"), partition=ds))
    assert retrain_day(world, instance, now) == "2024-03-09"


def test_a_tick_requests_the_day_once_and_skips_past_the_end() -> None:
    world = load_world("tiny")
    with dg.DagsterInstance.local_temp() as instance:
        context = dg.build_schedule_context(instance, scheduled_execution_time=datetime(2026, 1, 1, tzinfo=UTC))
        request = daily_retrain(world)(context)
        assert (request.partition_key, request.run_key) == ("2024-03-07", "2024-03-07")
        last = dg.AssetMaterialization(asset_key(world, "impressions"), partition="2024-03-11")
        instance.report_runless_asset_event(last)
        assert "ends with 2024-03-11" in daily_retrain(world)(context).skip_message


def test_a_real_world_asks_for_yesterday(instance: dg.DagsterInstance) -> None:
    world = load_world("tiny").model_copy(update={"clock": "real", "last_day": None})
    at_two = datetime(2026, 3, 8, 2, 0, tzinfo=UTC)  # still the evening of the 7th in New York
    assert retrain_day(world, instance, at_two) == "2026-03-06"


def test_a_real_world_has_a_deadline_and_a_replayed_log_none() -> None:
    from orchestration.assets.ingest import ingest_assets

    replayed = load_world("tiny")
    real = replayed.model_copy(update={"clock": "real", "last_day": None})
    assert {spec.freshness_policy for spec in ingest_assets(replayed)[0].specs} == {None}
    for spec in ingest_assets(real)[0].specs:
        policy = spec.freshness_policy
        assert isinstance(policy, dg.FreshnessPolicy)
        assert (policy.deadline_cron, policy.timezone) == ("0 12 * * *", "America/New_York")


def test_an_added_world_gets_its_code_location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMLINE_HOME", str(tmp_path / "home"))
    raw = yaml.safe_load((SHIPPED / "tiny.yaml").read_text()) | {"name": "mine"}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw))
    add_world(tmp_path / "mine.yaml")
    locations = yaml.safe_load(write_workspace().read_text())["load_from"]
    assert [entry["python_module"]["attribute"] for entry in locations] == ["mine"]
    assert definitions.mine.resolve_asset_graph()
