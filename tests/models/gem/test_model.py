"""GEM as a whole: finite on odd batches, blind to order and sharing, and better than popularity."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch

from features.transform.batch import Batch
from features.transform.schema import FeatureSchema, History
from models.gem.config import GemConfig
from models.gem.embeddings import Embeddings
from models.gem.loss import gem_loss
from models.gem.model import Gem
from models.layers.tables import PlainTables

Toy = Callable[..., Batch]
SMALL = GemConfig(
    dim=8, seeds=4, summary_tokens=2, wukong_hidden=(16,), head_hidden=(16, 8), attention_block=8, attention_window=4
)


def trained(model: Gem) -> Gem:
    """Give zero rows something to say."""
    torch.manual_seed(5)
    for module in model.embeddings.collection.embeddings.values():
        torch.nn.init.normal_(module.weight, std=0.3)
    torch.nn.init.normal_(model.linear_numbers.weight, std=0.1)
    return model


def empty_histories(batch: Batch) -> Batch:
    none = torch.zeros(0, dtype=torch.long)
    return replace(
        batch,
        history_lengths=torch.zeros_like(batch.history_lengths),
        history={name: none for name in batch.history},
        history_age=torch.zeros(0),
        history_type=none,
        history_span=torch.zeros_like(batch.history_span),
    )


@pytest.mark.parametrize("shape", ["empty", "one row", "no history", "plain"])
def test_odd_batches_give_finite_logits_and_gradients(schema: FeatureSchema, toy: Toy, shape: str) -> None:
    batch, model = toy(schema, requests=4), Gem(schema, SMALL)
    batch = {
        "empty": batch.rows([]),
        "one row": batch.rows([3]),
        "no history": empty_histories(batch),
        "plain": batch,
    }[shape]
    logits = model(batch)
    assert logits.shape == (len(batch), 2) and logits.dtype == torch.float32
    gem_loss(logits, batch, schema).total().backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    assert torch.isfinite(logits).all() and grads and all(torch.isfinite(grad).all() for grad in grads)


def test_scores_do_not_depend_on_company_order_or_sharing(schema: FeatureSchema, toy: Toy) -> None:
    batch, model = toy(schema, requests=6), trained(Gem(schema, SMALL))
    whole = model(batch)
    order = torch.randperm(len(batch))
    torch.testing.assert_close(model(batch.rows(order)), whole[order], rtol=1e-4, atol=1e-5)
    for index in (0, 17, 47):
        torch.testing.assert_close(model(batch.rows([index]))[0], whole[index], rtol=1e-4, atol=1e-5)


def test_feature_order_of_the_batch_does_not_matter(schema: FeatureSchema, toy: Toy) -> None:
    batch, model = toy(schema, requests=3), trained(Gem(schema, SMALL))
    turned = replace(
        batch,
        categorical=dict(reversed(batch.categorical.items())),
        history=dict(reversed(batch.history.items())),
    )
    assert torch.equal(model(turned), model(batch))


def test_the_request_side_does_not_see_the_candidate(schema: FeatureSchema, toy: Toy) -> None:
    batch, model = toy(schema, requests=5), trained(Gem(schema, SMALL))
    other = {**batch.categorical, "ad_id": batch.categorical["ad_id"].flip(0)}
    results = []
    for changed in (batch, replace(batch, categorical=other)):
        found, events = model.embeddings(changed)
        results.append(model.requests(changed, found, events))
    (activity, shared, (one,)), (other_activity, other_shared, (two,)) = results
    assert torch.equal(activity, other_activity) and torch.equal(shared, other_shared)
    assert torch.equal(one.x_NLD, two.x_NLD)
    assert not torch.equal(model(batch), model(replace(batch, categorical=other)))


def test_never_trained_rows_score_alike_and_all_seen_rows_learn(schema: FeatureSchema, toy: Toy) -> None:
    batch, model = toy(schema, requests=40), Gem(schema, SMALL)
    gem_loss(model(batch), batch, schema).total().backward()
    model.count_touches(batch)
    for table, module in model.embeddings.collection.embeddings.items():
        assert not module.weight.any()
        moved = module.weight.grad.abs().sum(1) > 0
        assert torch.equal(moved, model.touch_counts[table] > 0), table


def test_one_seed_starts_the_same_model_sharded_or_not(schema: FeatureSchema) -> None:
    starts = []
    for tables in (PlainTables, Embeddings, partial(Embeddings, device="meta")):
        torch.manual_seed(3)
        model = Gem(schema, SMALL, tables)
        starts.append({n: p for n, p in model.named_parameters() if not n.startswith("embeddings.")})
    for other in starts[1:]:
        assert starts[0].keys() == other.keys()
        assert all(torch.equal(value, other[name]) for name, value in starts[0].items())


def test_weights_of_torchrec_load_into_plain_tables(schema: FeatureSchema, toy: Toy) -> None:
    batch, trainer = toy(schema, requests=4), trained(Gem(schema, SMALL, Embeddings)).eval()
    plain = Gem(schema, SMALL).eval()
    plain.load_state_dict(trainer.state_dict())
    assert torch.allclose(plain(batch), trainer(batch), atol=1e-6)


def test_a_cold_model_can_start_at_the_base_rate(schema: FeatureSchema, toy: Toy) -> None:
    model, batch = Gem(schema, SMALL), toy(schema, requests=40)
    before = model(batch)
    model.start_at({"purchase": 0.001})
    shift = model(batch) - before
    torch.testing.assert_close(shift[:, 0], torch.full((320,), math.log(0.001 / 0.999)), rtol=1e-4, atol=1e-4)
    assert not shift[:, 1].any()
    with pytest.raises(ValueError, match="'nope'"):
        model.start_at({"nope": 0.1})


def test_a_new_surface_answers_without_its_own_experts(schema: FeatureSchema, toy: Toy) -> None:
    batch, model = toy(schema, requests=6), trained(Gem(schema, SMALL)).eval()
    assert model.trunk.experts is not None
    model.see(torch.tensor([True, False]))
    before = model(batch)
    torch.nn.init.normal_(model.trunk.experts.own_weight)
    moved = (model(batch) != before).any(1)
    assert torch.equal(moved, batch.surface == 0) and 0 < int(moved.sum()) < len(batch)
    copy = Gem(schema, SMALL).eval()
    copy.load_state_dict(model.state_dict())
    assert torch.equal(copy(batch), model(batch)), "which surfaces were seen is part of the weights"


def test_what_belongs_to_a_surface_gets_no_gradient_without_its_rows(schema: FeatureSchema, toy: Toy) -> None:
    batch, model = toy(schema, requests=6), trained(Gem(schema, SMALL))
    owned = {"trunk.experts.gate", "trunk.experts.own_weight", "trunk.experts.own_bias"}
    assert model.surface_rows == owned | {"heads.gate.weight", "heads.bias.weight", "candidates.surface.weight"}
    part = batch.rows((batch.surface == 1).nonzero().squeeze(1))
    gem_loss(model(part), part, schema).total().backward()
    for name in model.surface_rows:
        gradient = model.get_parameter(name).grad
        assert gradient is not None and len(gradient) == 2
        assert not gradient[0].any() and gradient[1].any(), name


@pytest.mark.parametrize("experts", [0, 1])
def test_without_own_experts_and_conditioning_a_surface_has_biases_alone(
    schema: FeatureSchema, toy: Toy, experts: int
) -> None:
    config = replace(SMALL, domain_experts=experts, surface_experts=0, surface_conditioning=False)
    model = trained(Gem(schema, config))
    batch = toy(schema, requests=4)
    hidden = model.represent(batch)[1]["trunk"]
    turned = replace(batch, surface=1 - batch.surface)
    torch.nn.init.zeros_(model.candidates.surface.weight)
    torch.testing.assert_close(model.represent(batch)[1]["trunk"], model.represent(turned)[1]["trunk"])
    assert hidden.shape == (len(batch), 8) and bool((hidden >= 0).all())
    model.see(torch.ones(2, dtype=torch.bool))


def test_a_schema_without_history_or_dense_features_works(schema: FeatureSchema, toy: Toy) -> None:
    bare = replace(schema, history=History(), dense=())
    batch = toy(bare, requests=3)
    assert batch.dense.shape == (24, 0)
    assert torch.isfinite(Gem(bare, SMALL)(batch)).all()


def normalised_entropy(probability: torch.Tensor, label: torch.Tensor) -> float:
    loss = torch.nn.functional.binary_cross_entropy(probability, label)
    return float(loss / torch.nn.functional.binary_cross_entropy(label.mean().expand_as(label), label))


def test_gem_beats_popularity_in_one_pass(schema: FeatureSchema, toy: Toy) -> None:
    torch.manual_seed(0)
    train, test = toy(schema, seed=1, requests=900), toy(schema, seed=2, requests=250)
    model = Gem(schema, replace(SMALL, dim=16))
    model.start_at({"purchase": float(train.label[:, 0].mean())})
    tables = list(model.embeddings.parameters())
    others = [p for name, p in model.named_parameters() if not name.startswith("embeddings.")]
    optimizer = torch.optim.Adam([{"params": tables, "lr": 1e-2}, {"params": others, "lr": 3e-3}])
    for start in range(0, len(train), 120):
        part = train.rows(slice(start, start + 120))
        optimizer.zero_grad()
        gem_loss(model(part), part, schema).total().backward()
        optimizer.step()
    with torch.no_grad():
        gem = normalised_entropy(model(test)[:, 0].sigmoid(), test.label[:, 0])
    rows, base = schema.tables["ad"], train.label[:, 0].mean()
    shown = torch.bincount(train.categorical["ad_id"], minlength=rows)
    bought = torch.bincount(train.categorical["ad_id"], weights=train.label[:, 0], minlength=rows)
    rate = ((bought + 10 * base) / (shown + 10)).float()[test.categorical["ad_id"]]
    popularity = normalised_entropy(rate, test.label[:, 0])
    assert gem < popularity - 0.03, (gem, popularity)
