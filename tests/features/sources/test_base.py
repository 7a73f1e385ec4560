"""Adapters are found by name and check their options before any row is read."""

import pytest

from features.errors import WorldError
from features.sources.base import adapter_names, source
from features.sources.canonical import columns_of
from features.worlds import World, load_world
from features.worlds.schema import Source


def _with_source(world: World, adapter: str, **options: object) -> World:
    return world.model_copy(update={"source": Source(adapter=adapter, options=options)})


def test_the_shipped_adapters_are_known() -> None:
    assert adapter_names() == ["complete_journey", "files", "synthetic_ads"]


@pytest.mark.parametrize("name", ["tiny", "complete_journey", "synthetic_ads"])
def test_shipped_worlds_pass_their_own_check(name: str) -> None:
    world = load_world(name)
    source(world).check(world)


def test_an_unknown_adapter_is_named_with_those_that_exist() -> None:
    with pytest.raises(
        WorldError, match=r"source.adapter 'filse' is not known; choose one of complete_journey, files, s"
    ):
        source(_with_source(load_world("tiny"), "filse"))


def test_a_typo_in_the_options_is_named() -> None:
    world = _with_source(load_world("complete_journey"), "complete_journey", household=3)
    with pytest.raises(WorldError, match=r"source.options.household: unknown key \(a typo\?\)"):
        source(world).check(world)


def test_an_attribute_that_the_log_lacks_is_named() -> None:
    world = load_world("complete_journey")
    world = world.model_copy(update={"users": world.users.model_copy(update={"attributes": ("age", "shoe_size")})})
    with pytest.raises(WorldError, match=r"users.attributes: the log has no \['shoe_size'\]"):
        source(world).check(world)


def test_canonical_columns_follow_the_world() -> None:
    world = load_world("tiny")
    assert columns_of("impressions", world)["context_device"] == "bigint"
    assert columns_of("events", world)["brand"] == "bigint"
    assert list(columns_of("users", world)) == [
        *("user_id", "event_timestamp", "available_ts"), *world.users.attributes, "ds"
    ]  # fmt: skip
    with pytest.raises(WorldError, match="no ingested table"):
        columns_of("labels", world)
