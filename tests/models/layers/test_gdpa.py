"""GDPA against a loop, for every activation; scale outside; no softmax."""

import pytest
import torch
from torch.nn import functional

from models.layers.gdpa import ACTIVATIONS, GDPA, gdpa

SCALAR = {
    "gelu": functional.gelu,
    "silu": functional.silu,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "identity": lambda x: x,
}


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_equals_a_loop(name: str) -> None:
    q, k, v = torch.randn(2, 5, 4), torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    expected = torch.zeros(2, 5, 4)
    for b in range(2):
        for i in range(5):
            for j in range(3):
                expected[b, i] += 0.25 * SCALAR[name](0.5 * torch.dot(q[b, i], k[b, j])) * v[b, j]
    torch.testing.assert_close(gdpa(q, k, v, activation=name, inside=0.5, outside=0.25), expected)


def test_the_sum_is_not_normalised() -> None:
    q, k, v = torch.randn(1, 4), torch.randn(3, 4), torch.randn(3, 4)
    doubled = gdpa(q, torch.cat([k, k]), torch.cat([v, v]), activation="sigmoid")
    torch.testing.assert_close(doubled, 2 * gdpa(q, k, v, activation="sigmoid"))


def test_a_block_uses_its_own_context() -> None:
    module, x, context = GDPA(8, 2), torch.randn(3, 4, 8), torch.randn(2, 5, 8)
    row = torch.tensor([0, 1, 1])
    out = module(x, context, row)
    other = context.clone()
    other[0] += 1.0
    changed = (module(x, other, row) - out).abs().sum((1, 2)) > 0
    assert changed.tolist() == [True, False, False]
    for block in range(3):
        alone = module(x[block : block + 1], context[row[block]][None], torch.tensor([0]))
        torch.testing.assert_close(alone[0], out[block])
