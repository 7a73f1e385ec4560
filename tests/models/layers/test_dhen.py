"""DHEN: with one interaction it is that interaction with a shortcut exactly; with several, its formula by loops."""

import math

import pytest
import torch

from models.layers.cross import CrossTokens
from models.layers.dhen import DHENLayer, TokenAttention
from models.layers.dot import DotInteraction
from models.layers.norm import normalise
from models.layers.wukong import WukongLayer

TOKENS, DIM = 6, 8


def wukong(out: int) -> WukongLayer:
    return WukongLayer(tokens=TOKENS, dim=DIM, fm_tokens=2, linear_tokens=out - 2, rank=2, hidden=(16,))


def test_one_interaction_and_a_shortcut_exactly() -> None:
    module, x = wukong(TOKENS), torch.randn(4, TOKENS, DIM)
    layer = DHENLayer([module], tokens=TOKENS)
    assert layer.out_tokens == TOKENS and layer.join is None and layer.shortcut is None
    assert torch.equal(layer(x), normalise(module(x) + x))


def test_one_interaction_that_changes_the_number_of_tokens() -> None:
    module, x = wukong(4), torch.randn(3, TOKENS, DIM)
    layer = DHENLayer([module], tokens=TOKENS)
    assert layer.out_tokens == 4 and layer.shortcut is not None
    shortcut = torch.stack(
        [torch.stack([sum(w * t for w, t in zip(r, o, strict=True)) for r in layer.shortcut]) for o in x]
    )
    torch.testing.assert_close(layer(x), normalise(module(x) + shortcut), rtol=1e-5, atol=1e-5)


def test_several_are_joined_by_a_map_over_tokens_forward_and_backward() -> None:
    parts = [
        wukong(4),
        TokenAttention(tokens=TOKENS, dim=DIM, heads=2),
        CrossTokens(tokens=TOKENS, dim=DIM),
        DotInteraction(tokens=TOKENS, dim=DIM, out_tokens=2),
    ]
    layer, x = DHENLayer(parts, tokens=TOKENS), torch.randn(3, TOKENS, DIM, requires_grad=True)
    assert layer.out_tokens == TOKENS and layer.join is not None
    made = [[token for part in parts for token in part(x)[b]] for b in range(3)]
    rows = [[sum(w * t for w, t in zip(row, made[b], strict=True)) for row in layer.join] for b in range(3)]
    expected = torch.stack(
        [torch.stack([normalise(r + s) for r, s in zip(rows[b], x[b], strict=True)]) for b in range(3)]
    )
    got = layer(x)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    wanted = torch.randn_like(got)
    slow, fast = (torch.autograd.grad(out, [x, *layer.parameters()], wanted) for out in (expected, got))
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert all(grad.abs().sum() > 0 for grad in fast)


@pytest.mark.parametrize("heads", [1, 4])
def test_token_attention_equals_a_loop(heads: int) -> None:
    module, x = TokenAttention(tokens=TOKENS, dim=DIM, heads=heads), torch.randn(2, TOKENS, DIM)
    size = DIM // heads
    for b in range(2):
        q, k, v = module.project(normalise(x[b])).split(DIM, -1)
        heard = []
        for part in (slice(h * size, (h + 1) * size) for h in range(heads)):
            scores = normalise(q[:, part]) @ normalise(k[:, part]).T / math.sqrt(size)
            heard.append(scores.softmax(-1) @ v[:, part])
        torch.testing.assert_close(module(x)[b], module.out(torch.cat(heard, -1)), rtol=1e-5, atol=1e-5)
