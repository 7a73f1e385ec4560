"""Sizes of recipes: what is counted without tables is what a real model has; FLOPs are a line in the candidates."""

import pytest
import torch
from torch import nn

from features.schema_of import schema_of
from features.transform.schema import FeatureSchema
from features.worlds import load_world
from models.gem.config import GemConfig
from models.gem.model import Gem
from training.recipes import ABLATIONS, RECIPES, Recipe, RecipeError, gem_small, gem_tiny, recipe
from training.sizes import kept_bytes, one_request, size_of, text


@pytest.fixture(scope="module")
def schema() -> FeatureSchema:
    return schema_of(load_world("tiny"))


def test_parameters_are_those_of_the_real_model(schema: FeatureSchema) -> None:
    size, model = size_of(gem_tiny(), schema), Gem(schema, GemConfig.from_dict(gem_tiny().model.to_dict()))
    weights = {name: p.numel() for name, p in model.named_parameters()}
    tables = {name: number for name, number in weights.items() if name.startswith("embeddings.")}
    assert size.tables == sum(tables.values()) == size.rows * gem_tiny().model.dim
    assert size.largest_table == max(tables.values())
    assert size.dense + size.tables == sum(weights.values())


def test_a_request_is_paid_for_once(schema: FeatureSchema) -> None:
    one, two, five = (size_of(gem_tiny(), schema, candidates=n) for n in (1, 2, 5))
    each = 2 * two.forward - one.forward
    assert 5 * five.forward == pytest.approx(one.forward + 4 * each)
    assert 0 < each < one.forward
    assert 2 * one.forward < one.training < 4 * one.forward


def test_memory_is_what_adam_averaging_and_adagrad_keep(schema: FeatureSchema) -> None:
    size = size_of(gem_tiny(), schema, candidates=4)
    memory = size.memory
    assert memory["weights"] == 4 * (size.dense + size.tables)
    assert memory["optimizer"] == 4 * (4 * size.dense + size.rows)
    assert memory["activations"] == size.activations * gem_tiny().batch_size / 4
    assert size_of(gem_tiny(), schema, candidates=4, events=0).activations < size.activations


def test_kept_bytes_are_inputs_of_maps_and_outputs_of_relu_once() -> None:
    layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    assert kept_bytes(layers, torch.randn(3, 4)) == 4 * 3 * (4 + 8)


def test_impossible_questions_are_refused(schema: FeatureSchema) -> None:
    with pytest.raises(RecipeError, match="at most its history_length, 10 events"):
        size_of(gem_tiny(), schema, events=11)
    with pytest.raises(RecipeError, match="at least 1 candidate"):
        size_of(gem_tiny(), schema, candidates=0)
    with pytest.raises(RecipeError, match="kind 'vertical'"):
        size_of(recipe("vertical_demo"), schema)


def test_text_names_settings_and_sizes(schema: FeatureSchema) -> None:
    shown = text(gem_tiny(), size_of(gem_tiny(), schema))
    for part in ("name: gem_tiny", "  dim: 8", "adam_betas: 0.9, 0.99", "at 20 candidates a request and 10 events"):
        assert part in shown


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_has_its_name_and_survives_json(name: str) -> None:
    assert recipe(name).name == name
    assert Recipe.from_dict(recipe(name).to_dict()) == recipe(name)


@pytest.mark.parametrize("name", ABLATIONS)
def test_an_ablation_differs_in_what_it_says_and_scores(schema: FeatureSchema, name: str) -> None:
    small, changed = gem_small().to_dict(), recipe(name).to_dict()
    differing = {key for key, value in changed["model"].items() if value != small["model"][key]}
    assert differing == set(ABLATIONS[name])
    assert {key for key in small if small[key] != changed[key]} == {"name", "model"}
    model = Gem(schema, GemConfig.from_dict(changed["model"]))
    scores = model(one_request(schema, candidates=3, events=5))
    assert scores.shape == (3, len(schema.tasks)) and torch.isfinite(scores).all()
