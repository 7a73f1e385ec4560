"""Tables: looked up by name, shared between candidates and histories, zero at the start; touches counted."""

from collections.abc import Callable
from dataclasses import replace

import torch

from features.transform.batch import Batch
from features.transform.schema import FeatureSchema
from models.gem.embeddings import Embeddings, table_configs
from models.layers.touches import TouchCounters

Toy = Callable[..., Batch]


def test_one_table_per_entry_with_all_its_features(schema: FeatureSchema) -> None:
    features = {config.name: config.feature_names for config in table_configs(schema, 8)}
    assert features["ad"] == ["ad_id", "history.ad_id"]
    assert features["category"] == ["ad_category", "history.category"]
    unused = replace(schema, tables={**schema.tables, "unused": 5})
    assert len(table_configs(unused, 8)) == 3


def test_vectors_are_the_rows_of_their_tables(schema: FeatureSchema, toy: Toy) -> None:
    embeddings, batch = Embeddings(schema, 8), toy(schema, requests=5)
    weights = {table: module.weight for table, module in embeddings.collection.embeddings.items()}
    assert not any(weight.any() for weight in weights.values())
    for weight in weights.values():
        torch.nn.init.normal_(weight)
    categorical, events = embeddings(batch)
    for feature in schema.categorical:
        torch.testing.assert_close(categorical[feature.name], weights[feature.table][batch.categorical[feature.name]])
    for field in schema.history.fields:
        torch.testing.assert_close(events[field.name], weights[field.table][batch.history[field.name]])


def test_tables_can_be_made_on_meta_for_sharding(schema: FeatureSchema) -> None:
    tables = Embeddings(schema, 8, "meta").collection.embeddings
    assert all(module.weight.is_meta for module in tables.values())


def test_touches_count_what_training_moves(schema: FeatureSchema, toy: Toy) -> None:
    embeddings, counters = Embeddings(schema, 8), TouchCounters(dict(schema.tables))
    batch = toy(schema, requests=5)
    scored = replace(batch, mask=torch.zeros_like(batch.mask))
    counters.update(embeddings, scored)
    assert not any(counts.any() for counts in counters.counts().values())
    half = torch.zeros_like(batch.mask)
    half[:8, 0] = 1  # the first request only
    counters.update(embeddings, replace(batch, mask=half))
    part = batch.rows(slice(0, 8))
    expected = torch.bincount(torch.cat([part.categorical["ad_id"], part.history["ad_id"]]), minlength=2_000)
    assert torch.equal(counters.counts()["ad"], expected)
    assert counters.counts()["hour"].sum() == 8
    assert not counters.state_dict()  # local values of one rank are not for saving
