"""The plan: JSON there and back, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from training.plan import ModelRef, Plan, PlanError
from training.recipes import RecipeError, gem_demo, recipe


def test_a_plan_survives_json(plan: Plan, tmp_path: Path) -> None:
    whole = replace(plan, parent=ModelRef("a", "1"), incumbent=ModelRef("b", "2"))
    assert Plan.read(whole.write(tmp_path / "plan.json")) == whole


def test_the_partition_is_never_walked(plan: Plan) -> None:
    with pytest.raises(PlanError, match="train on what it is judged on"):
        replace(plan, walk=(*plan.walk, plan.partition))


def test_days_are_walked_once_and_in_order(plan: Plan) -> None:
    for walk in (plan.walk[::-1], (plan.walk[0], *plan.walk)):
        with pytest.raises(PlanError, match="each day once, in order"):
            replace(plan, walk=walk)


def test_a_day_without_files_is_named(plan: Plan) -> None:
    files = {day: entry for day, entry in plan.labels.items() if day != plan.walk[1]}
    with pytest.raises(PlanError, match=f"'labels' files for {plan.walk[1]}"):
        replace(plan, labels=files)


def test_a_cold_start_needs_days(plan: Plan) -> None:
    with pytest.raises(PlanError, match="nothing to walk"):
        replace(plan, walk=())
    assert replace(plan, walk=(), parent=ModelRef("a", "1")).walk == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"walks": []}, r"unknown keys \['walks'\]"),
        ({"score": ["2024-05-01"]}, "score must be"),
        ({"walk": ["2024-5-1"]}, "write days as YYYY-MM-DD"),
        ({"files": {"examples": {}}}, r"missing keys \['labels', 'user_history'\]"),
        ({"parent": {"path": "x"}}, r"parent: missing keys \['digest'\]"),
        ({"recipe": {"name": "gem_tiny", "bach_size": 3}}, "bach_size"),
    ],
)
def test_a_malformed_plan_says_where(plan: Plan, change: dict[str, object], message: str) -> None:
    with pytest.raises((PlanError, RecipeError), match=message):
        Plan.from_dict(plan.to_dict() | change)


def test_a_missing_or_broken_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no plan at"):
        Plan.read(tmp_path / "none.json")
    (tmp_path / "broken.json").write_text('{"world": ')
    with pytest.raises(PlanError, match="not valid JSON"):
        Plan.read(tmp_path / "broken.json")


def test_recipes_change_by_field_and_survive_json() -> None:
    changed = recipe("gem_tiny", {"model.dim": 16, "batch_size": 7, "model": {"history_length": 3}})
    assert (changed.model.dim, changed.batch_size, changed.model.history_length) == (16, 7, 3)
    assert type(changed).from_dict(json.loads(json.dumps(changed.to_dict()))) == changed
    assert gem_demo().table_lr > 2 * gem_demo().dense_lr


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"model.dims": 3}, {"learning_rate": 1}, {"model.dim": 3}])
def test_recipes_refuse_what_cannot_be(wrong: dict[str, int]) -> None:
    with pytest.raises(RecipeError, match="recipe gem_tiny"):
        recipe("gem_tiny", wrong)


def test_an_unknown_recipe_names_the_known() -> None:
    with pytest.raises(RecipeError, match="gem_demo"):
        recipe("gem_huge")
