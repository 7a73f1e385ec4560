"""GDPA against loops for every activation, over jagged rows, both passes; the place of the scale; no softmax."""

import math
from collections.abc import Callable

import pytest
import torch

from models.layers.blocks import BlockLayout
from models.layers.gdpa import ACTIVATIONS, GDPA, gdpa
from models.layers.norm import normalise

BEND = 2.0 * math.sqrt(2.0 / math.pi)

SCALAR: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu_fast": lambda x: x / (1 + torch.exp(-BEND * (x + 0.044715 * x**3))),
    "relu": lambda x: x if x > 0 else 0.0 * x,
    "relu_squared": lambda x: x * x if x > 0 else 0.0 * x,
    "leaky_relu": lambda x: x if x > 0 else 0.01 * x,
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "hardswish": lambda x: x * min(max(x + 3, x * 0), x * 0 + 6) / 6,
    "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
    "identity": lambda x: x,
}


def test_every_published_activation_is_there() -> None:
    assert set(SCALAR) == set(ACTIVATIONS)


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_equals_a_loop(name: str) -> None:
    q, k, v = 3 * torch.randn(2, 5, 4), torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    expected = torch.zeros(2, 5, 4)
    for b in range(2):
        for i in range(5):
            for j in range(3):
                expected[b, i] += 0.25 * SCALAR[name](0.5 * torch.dot(q[b, i], k[b, j])) * v[b, j]
    torch.testing.assert_close(gdpa(q, k, v, activation=name, inside=0.5, outside=0.25), expected, rtol=1e-5, atol=1e-5)


def by_loop(module: GDPA, x_TD: torch.Tensor, context_CD: torch.Tensor) -> torch.Tensor:
    """One row without padding: one event, one head and one context token at a time."""
    dim, tokens = x_TD.shape[1], len(context_CD)
    size, activation = dim // module.heads, SCALAR[module.activation]
    keys, values = module.keys_values(context_CD).split(dim, -1)
    rows = []
    for x_D in x_TD:
        query, parts = module.query(normalise(x_D)), []
        for part in (slice(h * size, (h + 1) * size) for h in range(module.heads)):
            heard = torch.zeros(size)
            for key, value in zip(keys[:, part], values[:, part], strict=True):
                score = normalise(query[part]) @ normalise(key)
                weight = activation(score / tokens) if module.scale_inside else activation(score) / tokens
                heard = heard + weight * value
            parts.append(heard)
        rows.append(x_D + module.out(torch.cat(parts)))
    return torch.stack(rows) if rows else x_TD


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
@pytest.mark.parametrize("scale_inside", [False, True])
@pytest.mark.parametrize("lengths", [[6, 0, 3, 8], [1], [0, 0], [13, 1, 2, 0]])
def test_equals_a_loop_over_jagged_rows_forward_and_backward(name: str, scale_inside: bool, lengths: list[int]) -> None:
    torch.manual_seed(sum(lengths))
    module = GDPA(8, 2, name, scale_inside=scale_inside)
    flat, context = (
        torch.randn(sum(lengths), 8, requires_grad=True),
        torch.randn(len(lengths), 3, 8, requires_grad=True),
    )
    wanted = torch.randn(sum(lengths), 8)
    expected = torch.cat([by_loop(module, x, c) for x, c in zip(flat.split(lengths), context, strict=True)])
    layout = BlockLayout.of(torch.tensor(lengths), 4)
    # what stands in empty slots must not matter, so it is large
    x_NLD = torch.where(layout.mask[..., None], layout.pack(flat.detach()), 50.0 + torch.randn(*layout.mask.shape, 8))
    x_NLD.requires_grad_(True)
    got = layout.unpack(module(x_NLD, context, layout.row))
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    if not sum(lengths):
        return
    slow = torch.autograd.grad(expected, [flat, context, *module.parameters()], wanted)
    fast = torch.autograd.grad(got, [x_NLD, context, *module.parameters()], wanted)
    torch.testing.assert_close(layout.unpack(fast[0]), slow[0], rtol=1e-5, atol=1e-5)
    assert not fast[0][~layout.mask].any()
    for one, other in zip(fast[1:], slow[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_inside_a_small_scale_leaves_only_the_linear_part() -> None:
    """Why the scale stands outside: GELU(e x) is about e x / 2."""
    q, k, v = torch.randn(5, 8), torch.randn(3, 8), torch.randn(3, 8)
    linear = gdpa(q, k, v, activation="identity", outside=0.5 / 1000)
    torch.testing.assert_close(gdpa(q, k, v, activation="gelu", inside=1 / 1000), linear, rtol=0, atol=1e-4)
    assert (gdpa(q, k, v, activation="gelu", outside=1 / 1000) - linear).abs().max() > 1e-3


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
