"""Which day of `user_history` a model's day depends on."""

import pytest

from features.worlds import load_world
from orchestration.assets.gem import gem_assets
from orchestration.assets.verticals import vertical_assets
from orchestration.publishing import asset_key

DAY = "2024-03-08"


@pytest.mark.parametrize(("as_of", "seen"), [("day_start", "2024-03-07"), ("request", DAY)])
def test_models_depend_on_the_days_of_history_that_their_requests_see(as_of: str, seen: str) -> None:
    world = load_world("tiny")
    world = world.model_copy(update={"history": world.history.model_copy(update={"as_of": as_of})})
    history = asset_key(world, "user_history")
    found = 0
    for asset in (*gem_assets(world), *vertical_assets(world)):
        for spec in asset.specs:
            for dep in spec.deps:
                if dep.asset_key != history:
                    continue
                axis = spec.partitions_def
                assert axis is not None and dep.partition_mapping is not None
                wanted = axis.subset_with_partition_keys([DAY])
                days = dep.partition_mapping.get_upstream_mapped_partitions_result_for_partitions(wanted, axis, axis)
                assert list(days.partitions_subset.get_partition_keys()) == [seen]
                found += 1
    # GEM and at least one vertical
    assert found >= 2
