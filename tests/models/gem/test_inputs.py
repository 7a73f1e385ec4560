"""Every kind of input reaches the logits of every model, and nothing at all is no reason to fail."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from features.transform.batch import Batch
from features.transform.schema import Categorical, Content, FeatureSchema
from features.transform.transfer import MemoryStore, Precomputed, build_transfer
from models.gem.config import GemConfig
from models.gem.loss import gem_loss
from models.gem.model import Gem
from models.vertical.config import VerticalConfig
from models.vertical.model import VerticalModel

Toy = Callable[..., Batch]
SMALL = GemConfig(
    dim=8, seeds=4, summary_tokens=2, wukong_hidden=(16,), head_hidden=(16, 8), attention_block=8, attention_window=4
)


@pytest.fixture
def rich(schema: FeatureSchema) -> FeatureSchema:
    return replace(
        schema,
        categorical=(*schema.categorical, Categorical("tags", "category", multi=True)),
        content=(Content("picture", 3), Content("profile", 2, "request")),
    )


def filled(schema: FeatureSchema, toy: Toy, requests: int = 4) -> Batch:
    """A toy batch with bags of two, a picture an example and a profile a request."""
    batch = toy(schema, requests=requests)
    generator = torch.Generator().manual_seed(1)
    profiles = torch.randn(len(batch.history_lengths), 3, generator=generator)
    profiles[:, -1] = 0
    return replace(
        batch,
        bags={"tags": torch.randint(0, 100, (2 * len(batch),), generator=generator)},
        bag_lengths={"tags": torch.full((len(batch),), 2)},
        content={
            "picture": torch.cat([torch.randn(len(batch), 3, generator=generator), torch.zeros(len(batch), 1)], dim=1),
            "profile": profiles[batch.rows_of_history],
        },
    )


def gem(schema: FeatureSchema) -> Callable[[Batch], Tensor]:
    return warmed(Gem(schema, SMALL))


def vertical(schema: FeatureSchema) -> Callable[[Batch], Tensor]:
    model = warmed(VerticalModel(schema, VerticalConfig(dim=8), 4, 3))
    nobody = MemoryStore.empty(4)

    def served(batch: Batch) -> Tensor:
        none = np.zeros(len(batch), dtype=np.int64)
        columns = {"user_id": none, "request_ts": none}
        transfer = build_transfer(nobody, columns, none, 5, Precomputed.none(len(batch), 4), tasks=len(schema.tasks))
        logits: Tensor = model(batch, transfer).served
        return logits

    return served


def warmed(model: torch.nn.Module) -> torch.nn.Module:
    """Tables and zero-initialised maps away from zero, so that what is read shows."""
    torch.manual_seed(0)
    for parameter in model.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


MODELS = pytest.mark.parametrize("build", [gem, vertical])


@MODELS
def test_bags_and_vectors_reach_the_logits(rich: FeatureSchema, toy: Toy, build: Callable) -> None:
    batch, model = filled(rich, toy), build(rich)
    before = model(batch)
    picture, profile = batch.content["picture"], batch.content["profile"]
    absent = torch.tensor([0.0, 0.0, 0.0, 1.0]).expand_as(picture)
    for changed in (
        replace(batch, bags={"tags": (batch.bags["tags"] + 1) % 100}),
        replace(batch, content={"picture": absent, "profile": profile}),
        replace(batch, content={"picture": picture, "profile": profile * 2}),
    ):
        moved = (model(changed) - before).abs().amax(dim=1)
        assert (moved > 0).float().mean() > 0.9


@MODELS
def test_a_bag_does_not_depend_on_its_order(rich: FeatureSchema, toy: Toy, build: Callable) -> None:
    batch, model = filled(rich, toy), build(rich)
    turned = batch.bags["tags"].view(-1, 2).flip(1).flatten()
    torch.testing.assert_close(model(replace(batch, bags={"tags": turned})), model(batch))


@MODELS
def test_no_row_gives_no_score(rich: FeatureSchema, toy: Toy, build: Callable) -> None:
    """Case B14: a batch of nothing when predicting."""
    empty = filled(rich, toy).rows([])
    assert build(rich)(empty).shape == (0, len(rich.tasks))


@MODELS
def test_nothing_known_scores_finite_and_alike_alone_or_together(
    rich: FeatureSchema, toy: Toy, build: Callable
) -> None:
    """Case B14: no history, bags that hold row 0, and even bags that hold nothing."""
    batch, model = filled(rich, toy), build(rich)
    none = batch.history_lengths.new_zeros(len(batch.history_lengths))
    bare = replace(
        batch,
        history_lengths=none,
        history={name: rows[:0] for name, rows in batch.history.items()},
        history_age=batch.history_age[:0],
        history_type=batch.history_type[:0],
        history_span=torch.zeros_like(batch.history_span),
    )
    for rows, lengths in ((torch.zeros(len(batch)).long(), 1), (batch.bags["tags"][:0], 0)):
        given = replace(bare, bags={"tags": rows}, bag_lengths={"tags": torch.full((len(batch),), lengths)})
        together = model(given)
        assert together.isfinite().all()
        torch.testing.assert_close(model(given.rows([3])), together[3:4], atol=1e-5, rtol=1e-5)


def test_an_empty_history_trains_to_a_finite_loss(rich: FeatureSchema, toy: Toy) -> None:
    """Case B14: all histories of a training batch are empty."""
    batch, model = filled(rich, toy), Gem(rich, SMALL)
    bare = replace(
        batch,
        history_lengths=torch.zeros_like(batch.history_lengths),
        history={name: rows[:0] for name, rows in batch.history.items()},
        history_age=batch.history_age[:0],
        history_type=batch.history_type[:0],
        history_span=torch.zeros_like(batch.history_span),
    )
    loss = gem_loss(model(bare), bare, rich).total()
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
