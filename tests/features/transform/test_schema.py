"""The feature schema: JSON round trip, and every contradiction named."""

from dataclasses import replace

import pytest

from features.errors import GemlineError
from features.transform.schema import (
    Categorical,
    Content,
    Dense,
    FeatureSchema,
    History,
    HistoryField,
    SchemaError,
    TaskSpec,
)


@pytest.fixture
def schema() -> FeatureSchema:
    return FeatureSchema(
        categorical=(
            Categorical("ad_id", "ad"),
            Categorical("hour", "hour", "request"),
            Categorical("tags", "ad", multi=True),
        ),
        dense=(Dense("clicks", "count"), Dense("ctr", "ratio")),
        history=History((HistoryField("ad_id", "ad", "ad_id"), HistoryField("store", "hour")), 20),
        tables={"ad": 100, "hour": 26},
        surfaces=("feed", "search"),
        event_types=("click",),
        tasks=(TaskSpec("click", True), TaskSpec("install", False, "click", ("feed",))),
        content=(Content("look", 3, "request"),),
    )


def test_round_trip_keeps_everything(schema: FeatureSchema) -> None:
    assert FeatureSchema.from_json(schema.to_json()) == schema
    assert FeatureSchema.from_dict(schema.to_dict()).to_json() == schema.to_json()


def test_widths_and_lookups(schema: FeatureSchema) -> None:
    assert schema.dense_width == 4
    assert schema.feature_names == ("ad_id", "hour", "tags", "clicks", "ctr", "look")
    assert schema.task_names == ("click", "install")
    assert schema.categorical_of("hour").side == "request"
    with pytest.raises(SchemaError, match="no categorical feature 'nope'"):
        schema.categorical_of("nope")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"categorical": (Categorical("a", "ad"), Categorical("a", "ad"))}, "more than once"),
        ({"categorical": (Categorical("ad_id", "nope"),)}, "table 'nope'"),
        ({"tables": {"ad": 1, "hour": 26}}, "at least 2"),
        ({"history": History((HistoryField("ad_id", "ad", "nope"),))}, "no categorical"),
        ({"history": History((HistoryField("ad_id", "ad", "hour"),))}, "another table"),
        ({"history": History((), 0)}, "length"),
        ({"dense": (Dense("x", "sum"),)}, "kind 'sum'"),  # type: ignore[arg-type]
        ({"tasks": (TaskSpec("click", True, "nope"),)}, "parent 'nope'"),
        ({"tasks": (TaskSpec("click", True, "click"),)}, "no other task"),
        ({"tasks": (TaskSpec("click", True, None, ("tv",)),)}, "tv"),
        ({"surfaces": ()}, "at least one"),
        ({"content": (Content("look", 0),)}, "width 0"),
        ({"content": (Content("look", 2), Content("look", 3))}, "more than once"),
        ({"categorical": (Categorical("ad_id", "ad", multi=True),)}, "multi-valued"),
    ],
)
def test_contradictions_are_refused(schema: FeatureSchema, change: dict[str, object], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        replace(schema, **change)


def test_a_part_keeps_the_inputs_and_its_own_tasks(schema: FeatureSchema) -> None:
    part = schema.part(("feed",), ("install",))
    assert part.categorical == schema.categorical
    assert part.surfaces == ("feed",)
    assert part.tasks == (TaskSpec("install", False, None, ("feed",)),)
    # without a primary task all of them decide
    assert part.judged_tasks == ("install",)
    assert schema.judged_tasks == ("click",)
    assert schema.part(schema.surfaces, schema.task_names) == schema
    assert schema.part(("search",), schema.task_names).task_names == ("click",)
    with pytest.raises(SchemaError, match="tv"):
        schema.part(("tv",), ("click",))


def test_a_parent_is_the_nearest_ancestor_on_the_surface(schema: FeatureSchema) -> None:
    chain = (
        TaskSpec("click", True, None, ("feed",)),
        TaskSpec("cart", parent="click", surfaces=("search",)),
        TaskSpec("buy", parent="cart"),
    )
    whole = replace(schema, tasks=chain)
    assert [whole.parent_on("buy", surface) for surface in ("feed", "search")] == ["click", "cart"]
    assert whole.parent_on("cart", "search") is None
    # a part without the surface of the cart keeps the path to the click
    part = whole.part(("feed",), whole.task_names)
    assert part.task_names == ("click", "buy")
    assert part.parent_on("buy", "feed") == "click"


def test_a_ring_of_parents_is_refused(schema: FeatureSchema) -> None:
    ring = (TaskSpec("click", True, "buy"), TaskSpec("buy", parent="click"))
    with pytest.raises(SchemaError, match="task click: its parents form a ring"):
        replace(schema, tasks=ring)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"history": {"fields": [{"nam": 1}]}, "categorical": []}'])
def test_bad_json_is_one_clear_error(text: str) -> None:
    with pytest.raises(GemlineError, match="schema"):
        FeatureSchema.from_json(text)


def test_without_leaves_out_categorical_features_and_nothing_else(schema: FeatureSchema) -> None:
    small = schema.without(("hour",))
    assert [entry.name for entry in small.categorical] == ["ad_id", "tags"]
    assert replace(small, categorical=schema.categorical) == schema == schema.without(())
