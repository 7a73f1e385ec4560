"""Content tokens: a linear map of each vector, one token for all that lack it, none where nothing is declared."""

from collections.abc import Callable
from dataclasses import replace

import torch

from features.transform.batch import Batch
from features.transform.schema import Content, FeatureSchema
from models.layers.content import ContentTokens


def test_tokens_are_the_maps_of_their_vectors(schema: FeatureSchema, toy: Callable[..., Batch]) -> None:
    batch = toy(schema, requests=2)
    look, text = torch.randn(len(batch), 4), torch.randn(len(batch), 3)
    look[:3] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    batch = replace(batch, content={"look": look, "text": text})
    layer = ContentTokens((Content("text", 2), Content("look", 3)), 5)
    tokens = layer(batch)
    assert tokens.shape == (len(batch), layer.tokens, 5) and layer.tokens == 2
    torch.testing.assert_close(tokens[:, 0], text @ layer.maps[0].weight.T + layer.maps[0].bias)
    torch.testing.assert_close(tokens[0, 1], layer.maps[1].weight[:, 3] + layer.maps[1].bias)
    assert torch.equal(tokens[0, 1], tokens[2, 1])


def test_nothing_declared_is_no_token(schema: FeatureSchema, toy: Callable[..., Batch]) -> None:
    batch = toy(schema, requests=2)
    layer = ContentTokens((), 5)
    assert layer(batch).shape == (len(batch), 0, 5) and not list(layer.parameters())
