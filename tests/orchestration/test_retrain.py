"""The day after: a model continues from its parent and is judged against the incumbent; a worse one never goes live."""

from pathlib import Path

import dagster as dg
import pytest

from orchestration.resources import WorldResource
from orchestration.running import first_failure
from serving import releases
from tests.orchestration.conftest import COLD, NEXT, SECOND, key, materialize, run

# a first test builds all stages before its own
pytestmark = [pytest.mark.assets, pytest.mark.timeout(600)]
GEMLINE = WorldResource(world_name="tiny")


def test_the_next_day_continues_and_a_ruined_model_is_rejected(followed: Path, instance: dg.DagsterInstance) -> None:
    tables = GEMLINE.tables()
    trained = tables.decisions.of_day("gem", SECOND)
    assert trained is not None
    assert trained.decision in ("promoted", "carried")
    live = releases.live(GEMLINE.home.releases, "gem")

    # steps of this size unlearn everything: the gate must see it
    ruined = {"ops": {"tiny__gem_model": {"config": {"overrides": {"dense_lr": 3.0, "table_lr": 30.0}}}}}
    result = run(instance, "gem_job", partition_key=NEXT, run_config=ruined)
    assert not result.success
    decision = tables.decisions.of_day("gem", NEXT)
    if decision is not None:  # a non-finite loss already ends the training
        assert decision.decision == "rejected"
        assert "is rejected" in first_failure(result)
    assert releases.live(GEMLINE.home.releases, "gem") == live
    assert instance.get_materialized_partitions(key("gem_release")) == set()

    result = run(instance, "gem_job", partition_key=NEXT)
    parent = instance.get_latest_materialization_event(key("gem_model"))
    assert parent is not None
    assert parent.asset_materialization is not None
    assert parent.asset_materialization.metadata["parent"].value == trained.digest
    assert parent.asset_materialization.metadata["walk"].value == "3 days"
    decided = tables.decisions.of_day("gem", NEXT)
    assert decided is not None
    assert result.success == (decided.decision != "rejected")


def test_rolling_back_brings_the_release_before(judged: Path, instance: dg.DagsterInstance) -> None:
    home = GEMLINE.home
    live = releases.live(home.releases, "gem")
    if live is None:
        pytest.fail("the cold day's model was not promoted, so nothing can be rolled back")
    with pytest.raises(releases.ReleaseError):
        releases.rollback(home.releases, "gem", "there is none before it")
    assert materialize(instance, "gem_release", COLD).success
