"""The arms of CompSkip's benchmark: counted equals closed form on their batch; the control has their FLOPs."""

import pytest
import torch

from benchmarks.arms import costs, log_batch
from benchmarks.compskip import OWN, SHALLOW, WITHOUT, arms, on_paper
from features.schema_of import schema_of
from features.transform.schema import FeatureSchema
from features.worlds import load_world


@pytest.fixture(scope="module")
def schema() -> FeatureSchema:
    return schema_of(load_world("complete_journey"))


def test_closed_form_and_control_of_the_recipe(schema: FeatureSchema) -> None:
    recipes = arms()
    batch = log_batch(schema, recipes[OWN].model.history_length, requests=6, candidates=18)
    off, shares = on_paper(recipes, schema, batch)
    assert off == 0
    assert sum(shares.values()) == pytest.approx(1.0) and min(shares.values()) > 0
    found = costs(recipes, schema, batch, turns=1)
    assert found[OWN].flops < found[WITHOUT].flops
    assert found[SHALLOW].flops == pytest.approx(found[OWN].flops, rel=0.05), "not of equal FLOPs"


def test_a_log_like_batch_is_seeded_and_cut(schema: FeatureSchema) -> None:
    one, two = log_batch(schema, 30), log_batch(schema, 30)
    assert torch.equal(one.history_lengths, two.history_lengths)
    assert all(torch.equal(one.categorical[name], two.categorical[name]) for name in one.categorical)
    assert one.history_lengths.max() == 30 and one.history_lengths.min() < 30
    assert len(one) == 28 * 18 and len(set(one.history_lengths.tolist())) > 5
