"""Every architecture on the one interface: odd batches, one request side for all candidates, what ablations change."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from features.transform.batch import Batch
from features.transform.schema import FeatureSchema
from models.gem.backbone import Events
from models.gem.config import ARCHITECTURES, GemConfig
from models.gem.loss import gem_loss
from models.gem.model import Gem

Toy = Callable[..., Batch]
SMALL: dict[str, Any] = {
    "dim": 8,
    "layers": 2,
    "seeds": 4,
    "summary_tokens": 2,
    "wukong_hidden": (16,),
    "head_hidden": (16, 8),
    "attention_block": 8,
    "attention_window": 4,
}
VARIANTS: dict[str, dict[str, Any]] = {
    **{name: {"architecture": name} for name in ARCHITECTURES},
    "no compskip": {"compskip": False},
    "four layers": {"layers": 4},
    "towers": {"sequence": "towers"},
    "towers of interformer": {"sequence": "towers", "architecture": "interformer"},
    "pyramid": {"architecture": "interformer", "pyramid_levels": 2},
    "window": {"attention": "window"},
    "full": {"attention": "full"},
    "shift": {"attention_shift": True, "layers": 4},
    "pooling": {"pooling": "attention"},
    "cross layer": {"cross_layer": True, "layers": 4},
    "gate": {"expert_gate": True},
    "attentive": {"wukong_attentive": True},
    "plain events": {"event_projection": False, "rotary": False},
    "low-rank cross": {"architecture": "dcnv2", "cross_rank": 4},
}


def made(schema: FeatureSchema, variant: str, seed: int = 0) -> Gem:
    """A model whose table rows are no longer zero."""
    torch.manual_seed(seed)
    model = Gem(schema, GemConfig(**SMALL | VARIANTS[variant]))
    for module in model.embeddings.collection["embeddings"].values():
        nn.init.normal_(module.weight, std=0.3)
    return model


@pytest.mark.parametrize("variant", VARIANTS)
def test_all_parameters_learn_and_odd_batches_are_finite(schema: FeatureSchema, toy: Toy, variant: str) -> None:
    model, batch = made(schema, variant), toy(schema, requests=4)
    batch.history_type[::3] = 0  # unknown types have a tower too
    for part in (batch.rows([]), batch.rows([3]), batch):
        model.zero_grad()
        logits = model(part)
        gem_loss(logits, part, schema).total().backward()
        assert logits.shape == (len(part), 2) and torch.isfinite(logits).all()
        assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    unread = [name for name, p in model.named_parameters() if p.grad is None]
    assert not unread, "parameters that nothing reads"


@pytest.mark.parametrize("variant", VARIANTS)
def test_company_order_and_sharing_do_not_matter(schema: FeatureSchema, toy: Toy, variant: str) -> None:
    model, batch = made(schema, variant).eval(), toy(schema, requests=6)
    whole = model(batch)
    order = torch.randperm(len(batch), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(model(batch.rows(order)), whole[order], rtol=1e-4, atol=1e-5)
    for index in (0, 17, 47):
        torch.testing.assert_close(model(batch.rows([index]))[0], whole[index], rtol=1e-4, atol=1e-5)


def user_side(model: Gem, batch: Batch) -> list[Tensor]:
    """Everything that any module of the model makes of requests or histories rather than of rows of the batch."""
    seen: list[Tensor] = []
    requests, rows = len(batch.history_lengths), len(batch)

    def keep(_module: nn.Module, _given: Any, out: Any) -> None:
        for part in out if isinstance(out, tuple | list) else [out]:
            if isinstance(part, Events):
                seen.append(part.x_NLD)
            elif isinstance(part, Tensor) and len(part) == requests:
                seen.append(part)

    assert requests != rows
    hooks = [module.register_forward_hook(keep) for module in model.modules()]
    model(batch)
    for hook in hooks:
        hook.remove()
    return seen


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_request_side_does_not_see_the_candidate(schema: FeatureSchema, toy: Toy, variant: str) -> None:
    model, batch = made(schema, variant).eval(), toy(schema, requests=5)
    other = replace(
        batch,
        categorical={**batch.categorical, "ad_id": batch.categorical["ad_id"].flip(0)},
        dense=batch.dense.flip(0) + 1.0,
        surface=1 - batch.surface,
    )
    before, after = user_side(model, batch), user_side(model, other)
    assert len(before) == len(after) > 3
    assert all(torch.equal(one, two) for one, two in zip(before, after, strict=True))
    assert not torch.equal(model(batch), model(other))


def test_the_cross_layer_path_starts_as_the_identity(schema: FeatureSchema, toy: Toy) -> None:
    batch = toy(schema, requests=3)
    without, path = made(schema, "four layers"), made(schema, "cross layer")
    path.load_state_dict(without.state_dict(), strict=False)
    assert torch.equal(without(batch), path(batch))


def test_one_type_of_events_makes_one_sequence_of_the_towers(schema: FeatureSchema, toy: Toy) -> None:
    batch = toy(schema, requests=5)
    batch = replace(batch, history_type=torch.ones_like(batch.history_type))
    towers, merged = made(schema, "towers"), made(schema, "kunlun")
    found, events = merged.embeddings(batch)
    (_, _, (one,)), (_, _, three) = merged.requests(batch, found, events), towers.requests(batch, found, events)
    assert [len(tower.x_NLD) for tower in three] == [0, len(one.x_NLD), 0]
    assert torch.equal(three[1].layout.slot, one.layout.slot)


def test_towers_hold_all_events_of_the_merged_sequence_in_order(schema: FeatureSchema, toy: Toy) -> None:
    batch, model = toy(schema, requests=5), made(schema, "towers")
    found, events = model.embeddings(batch)
    _, _, towers = model.requests(batch, found, events)
    tokens = model.requests.event_tokens(list(events.values()), batch.history_type, batch.history_age / 86_400.0)
    for kind, tower in enumerate(towers):
        torch.testing.assert_close(tower.layout.unpack(tower.x_NLD), tokens[batch.history_type == kind])
