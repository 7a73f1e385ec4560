"""The loss: exact under sampling, silent where masked, additive over parts."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from features.transform.batch import Batch
from features.transform.schema import FeatureSchema
from models.gem.loss import gem_loss

Toy = Callable[..., Batch]


def sampled(schema: FeatureSchema, toy: Toy, rows: int, base_rate: float, keep: float) -> tuple[Batch, float]:
    """A down-sampled log of `rows` kept impressions, and the full log's base rate: positives all kept."""
    positives = int(rows * base_rate / (base_rate + keep * (1 - base_rate)))
    batch = toy(schema, requests=rows // 8)
    label = torch.zeros_like(batch.label)
    label[:positives] = 1.0
    weight = torch.where(label > 0, 1.0, 1 / keep)
    batch = replace(batch, label=label, weight=weight, mask=torch.ones_like(label), keep_rate=torch.full((rows,), keep))
    return batch, positives / (positives + (rows - positives) / keep)


def test_sampling_is_exact_for_offset_and_for_weights(schema: FeatureSchema, toy: Toy) -> None:
    batch, rate = sampled(schema, toy, 8_000, 0.01, 0.05)
    bias = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.LBFGS([bias], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = gem_loss(bias.expand(len(batch), 2), batch, schema).total()
        loss.backward()
        return loss

    optimizer.step(closure)
    # column 0 is primary (offset, no weights), column 1 is not (weights, no offset): both find the rate
    assert bias.detach().sigmoid().tolist() == pytest.approx([rate, rate], rel=1e-3)


def test_masked_pairs_are_exactly_silent_even_when_nan(schema: FeatureSchema, toy: Toy) -> None:
    batch = toy(schema, requests=4)
    mask = (torch.rand_like(batch.mask) < 0.5).float()
    label = torch.where(mask > 0, batch.label, torch.nan)
    logits = torch.randn_like(mask, requires_grad=True)
    losses = gem_loss(logits, replace(batch, mask=mask, label=label, weight=mask), schema)
    losses.total().backward()
    assert logits.grad is not None and torch.isfinite(losses.loss_sum).all()
    assert (logits.grad[mask == 0] == 0).all() and (logits.grad[mask > 0] != 0).all()
    assert losses.count.tolist() == mask.sum(0).tolist()


def test_parts_add_up_to_the_whole(schema: FeatureSchema, toy: Toy) -> None:
    batch = toy(schema, requests=6)
    batch = replace(batch, weight=torch.rand_like(batch.weight) * 9, keep_rate=torch.full((48,), 0.1))
    logits = torch.randn(48, 2)
    whole = gem_loss(logits, batch, schema)
    cuts = [slice(0, 5), slice(5, 40), slice(40, 48)]
    parts = [gem_loss(logits[cut], batch.rows(cut), schema) for cut in cuts]
    torch.testing.assert_close(sum(part.loss_sum for part in parts), whole.loss_sum)
    count = torch.stack([part.count for part in parts]).sum(0)
    torch.testing.assert_close(count, whole.count)
    torch.testing.assert_close(sum(part.total(count) for part in parts), whole.total())


def test_scales_are_fixed_factors(schema: FeatureSchema, toy: Toy) -> None:
    batch, logits = toy(schema, requests=4), torch.randn(32, 2)
    plain, scaled = gem_loss(logits, batch, schema), gem_loss(logits, batch, schema, {"rebought": 0.25})
    torch.testing.assert_close(scaled.loss_sum, plain.loss_sum * torch.tensor([1.0, 0.25]))
    torch.testing.assert_close(scaled.count, plain.count)


def test_no_labels_cost_nothing(schema: FeatureSchema, toy: Toy) -> None:
    batch = toy(schema, requests=4)
    for part in (batch.rows([]), replace(batch, mask=torch.zeros_like(batch.mask))):
        loss_sum, count = gem_loss(torch.zeros(len(part), 2), part, schema)
        assert not loss_sum.any() and not count.any()
        assert gem_loss(torch.zeros(len(part), 2), part, schema).total() == 0
