"""Lines: what the world file keeps from a vertical, the large model has."""

from features.schema_of import schema_of
from features.worlds import load_world
from training.lines import gem_line, vertical_line


def test_a_vertical_is_not_given_what_the_world_excludes() -> None:
    world = load_world("synthetic_ads")
    assert gem_line(world).excluded == ()
    for vertical in world.verticals:
        line = vertical_line(world, vertical.name)
        small = schema_of(world).part(line.surfaces, line.tasks).without(line.excluded)
        assert line.excluded == ("context_page",)
        assert "context_page" not in small.feature_names and "context_page" in schema_of(world).feature_names


def test_an_excluded_surface_is_the_column_of_that_feature() -> None:
    world = load_world("tiny")
    changed = world.verticals[0].model_copy(update={"exclude": ("surface", "hour")})
    line = vertical_line(world.model_copy(update={"verticals": (changed,)}), changed.name)
    assert line.excluded == ("surface_id", "hour")
