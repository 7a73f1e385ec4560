"""Tables: a bag's mean by plain loops, forward and backward; the plain tables agree with TorchRec's."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from features.transform.batch import Batch, concat
from features.transform.schema import Categorical, FeatureSchema
from models.gem.embeddings import Embeddings
from models.layers.tables import PlainTables, mean_by_bag
from models.layers.touches import TouchCounters

Toy = Callable[..., Batch]


def with_tags(schema: FeatureSchema) -> FeatureSchema:
    """The toy's schema with a multi-valued feature whose table others share."""
    return replace(schema, categorical=(*schema.categorical, Categorical("tags", "category", multi=True)))


def tagged(schema: FeatureSchema, toy: Toy, seed: int = 0) -> Batch:
    batch = toy(schema, seed=seed, requests=5)
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 5, (len(batch),), generator=generator)
    rows = torch.randint(0, 100, (int(lengths.sum()),), generator=generator)
    return replace(batch, bags={"tags": rows}, bag_lengths={"tags": lengths})


@pytest.mark.parametrize("lengths", [[2, 0, 1, 5], [0], [], [0, 0, 3], [1, 1]])
def test_means_are_those_of_plain_loops(lengths: list[int]) -> None:
    """Case B14: also a bag of nothing, and no bag."""
    x = torch.randn(sum(lengths), 3, dtype=torch.double, requires_grad=True)
    found = mean_by_bag(x, torch.tensor(lengths, dtype=torch.int64))
    parts = torch.split(x, lengths) if lengths else ()
    plain = [part.mean(0) if len(part) else torch.zeros(3, dtype=torch.double) for part in parts]
    assert found.shape == (len(lengths), 3)
    if not plain:
        return
    expected = torch.stack(plain)
    torch.testing.assert_close(found, expected)
    weight = torch.randn_like(expected)
    if sum(lengths):
        own, others = (torch.autograd.grad((out * weight).sum(), x)[0] for out in (found, expected))
        torch.testing.assert_close(own, others)


def test_the_number_of_equal_values_changes_nothing() -> None:
    x = torch.randn(1, 4)
    torch.testing.assert_close(mean_by_bag(x.expand(6, 4), torch.tensor([1, 5])), x.expand(2, 4))


@pytest.mark.parametrize("sparse", [False, True])
def test_plain_and_torchrec_tables_agree(schema: FeatureSchema, toy: Toy, sparse: bool) -> None:
    schema = with_tags(schema)
    batch = tagged(schema, toy)
    plain, sharded = PlainTables(schema, 8, sparse=sparse), Embeddings(schema, 8)
    for parameter in plain.parameters():
        torch.nn.init.normal_(parameter)
    sharded.load_state_dict(plain.state_dict())
    answers = [tables(batch) for tables in (plain, sharded)]
    for ours, theirs in zip(*answers, strict=True):
        assert list(ours) == list(theirs)
        for name, vectors in ours.items():
            torch.testing.assert_close(vectors, theirs[name])
    assert answers[0][0]["tags"].shape == (len(batch), 8)
    torch.manual_seed(0)
    weights = torch.randn(len(batch), 8)
    for categorical, _ in answers:
        sum((vectors * weights).sum() for vectors in categorical.values()).backward()  # type: ignore[union-attr]
    for (name, ours), theirs in zip(plain.named_parameters(), sharded.parameters(), strict=True):
        assert ours.grad is not None and theirs.grad is not None
        dense = ours.grad.to_dense() if sparse else ours.grad
        torch.testing.assert_close(dense, theirs.grad, msg=name)


def test_every_value_of_a_bag_is_counted_once_its_example_is_trained(schema: FeatureSchema, toy: Toy) -> None:
    schema = with_tags(schema)
    batch = tagged(schema, toy)
    due = torch.zeros_like(batch.mask)
    due[3:5, 0] = 1
    counters, bare = (TouchCounters(dict(schema.tables)) for _ in range(2))
    counters.update(PlainTables(schema, 4), replace(batch, mask=due))
    lonely = replace(schema, categorical=schema.categorical[:-1])
    bare.update(PlainTables(lonely, 4), replace(batch, mask=due))
    expected = torch.bincount(batch.rows(slice(3, 5)).bags["tags"], minlength=100)
    assert torch.equal(counters.counts()["category"] - bare.counts()["category"], expected)


def test_ids_that_were_never_trained_are_counted_missing_ones_are_not(schema: FeatureSchema, toy: Toy) -> None:
    """Case B27."""
    schema = with_tags(schema)
    batch = tagged(schema, toy)
    rows = torch.tensor([0, 5, 5, 7] * (len(batch) // 4))
    batch = replace(batch, categorical={**batch.categorical, "ad_id": rows})
    tables = PlainTables(schema, 4)
    with torch.no_grad():
        tables.collection["embeddings"]["ad"].weight[7, 2] = 0.1
        tables.collection["embeddings"]["category"].weight[:] = 1.0
    found = tables.untrained(batch)
    assert found["ad_id"] == len(batch) // 2
    assert found["tags"] == found["ad_category"] == 0


def test_joined_batches_look_up_what_their_parts_do(schema: FeatureSchema, toy: Toy) -> None:
    schema = with_tags(schema)
    parts = [tagged(schema, toy, seed) for seed in (1, 2)]
    tables = PlainTables(schema, 4)
    torch.nn.init.normal_(tables.collection["embeddings"]["category"].weight)
    whole = tables(concat(parts))[0]["tags"]
    torch.testing.assert_close(whole, torch.cat([tables(part)[0]["tags"] for part in parts]))
    none = tables(parts[0].rows([]))[0]["tags"]
    assert none.shape == (0, 4)
