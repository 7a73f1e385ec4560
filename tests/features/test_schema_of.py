"""From a world to what its models read."""

from features.schema_of import history_days, schema_of
from features.worlds import World, load_world


def tiny(as_of: str) -> World:
    world = load_world("tiny")
    return world.model_copy(update={"history": world.history.model_copy(update={"as_of": as_of})})


def test_the_kind_of_history_that_a_world_declares_reaches_its_models() -> None:
    for as_of in ("day_start", "request"):
        schema = schema_of(tiny(as_of))
        assert schema.history.as_of == as_of
        assert type(schema).from_json(schema.to_json()) == schema


def test_days_of_history_end_with_the_day_before_or_with_the_day_itself() -> None:
    days = ["2024-03-07", "2024-03-08", "2024-03-09"]
    assert history_days(tiny("day_start"), days[2]) == days[:2]
    assert history_days(tiny("request"), days[2]) == days
    # a world's first day has none before it
    assert history_days(tiny("day_start"), days[0]) == history_days(tiny("request"), days[0]) == days[:1]
