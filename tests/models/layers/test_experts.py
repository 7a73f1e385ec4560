"""Wukong experts: one is Wukong exactly, several are Wukong layers on their parts, and a token reaches only its own."""

import pytest
import torch

from models.layers.experts import WukongExperts
from models.layers.wukong import WukongLayer

SIZES = {"dim": 8, "fm_tokens": 3, "linear_tokens": 2, "rank": 2}


def experts(tokens: int, shared: int, count: int, **options: bool) -> WukongExperts:
    return WukongExperts(tokens=tokens, shared=shared, experts=count, hidden=(16,), **SIZES, **options)


@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize("attentive", [False, True])
@pytest.mark.parametrize("tokens", [5, 9])
def test_one_expert_is_wukong_exactly_forward_and_backward(gate: bool, attentive: bool, tokens: int) -> None:
    torch.manual_seed(1)
    plain = WukongLayer(tokens=tokens, hidden=(16,), attentive=attentive, **SIZES)
    torch.manual_seed(1)
    mixture = experts(tokens, 4, 1, gate=gate, attentive=attentive)
    x, wanted = torch.randn(6, tokens, 8, requires_grad=True), torch.randn(6, 5, 8)
    one, other = plain(x), mixture(x)
    assert torch.equal(one, other)
    one_grads = torch.autograd.grad(one, [x, *plain.parameters()], wanted)
    other_grads = torch.autograd.grad(other, [x, *mixture.experts.parameters()], wanted)
    assert all(torch.equal(a, b) for a, b in zip(one_grads, other_grads, strict=True))


@pytest.mark.parametrize(("tokens", "shared", "count"), [(9, 3, 2), (10, 3, 3), (8, 0, 4), (7, 4, 3)])
def test_equals_a_loop_over_experts_and_their_tokens(tokens: int, shared: int, count: int) -> None:
    torch.manual_seed(tokens)
    module = experts(tokens, shared, count)
    x = torch.randn(4, tokens, 8, requires_grad=True)
    parts: list[list[torch.Tensor]] = [[x[:, place] for place in range(shared)] for _ in range(count)]
    for card, place in enumerate(range(shared, tokens)):
        parts[card % count].append(x[:, place])
    dealt = zip(module.experts, parts, strict=True)
    expected, got = torch.cat([layer(torch.stack(part, 1)) for layer, part in dealt], 1), module(x)
    assert got.shape == (4, module.out_tokens, 8) and module.out_tokens == count * 5
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    wanted = torch.randn_like(got)
    slow, fast = (torch.autograd.grad(out, [x, *module.parameters()], wanted) for out in (expected, got))
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def reached(module: WukongExperts, place: int) -> list[bool]:
    """Which experts' outputs give a token a gradient."""
    x = torch.randn(4, 9, 8, requires_grad=True)
    found = []
    for part in module(x).unflatten(1, (len(module.experts), -1)).unbind(1):
        grad = torch.autograd.grad((part * torch.randn_like(part)).sum(), x, retain_graph=True)[0]
        found.append(bool(grad[:, place].any()))
    return found


def test_a_tokens_gradient_reaches_only_its_expert_and_a_shared_tokens_all() -> None:
    module = experts(9, 3, 2)
    assert [reached(module, place) for place in range(3)] == [[True, True]] * 3
    assert [reached(module, place) for place in range(3, 9)] == [[True, False], [False, True]] * 3


def test_after_two_layers_every_token_reaches_every_expert() -> None:
    first, second = experts(8, 0, 2), experts(10, 0, 2)
    x = torch.randn(2, 8, 8, requires_grad=True)
    for part in second(first(x)).chunk(2, dim=1):
        grad = torch.autograd.grad((part * torch.randn_like(part)).sum(), x, retain_graph=True)[0]
        assert (grad.abs().sum((0, 2)) > 0).all()


def test_the_gate_starts_as_no_gate_and_then_weighs_experts() -> None:
    torch.manual_seed(2)
    plain = experts(9, 3, 2)
    torch.manual_seed(2)
    gated = experts(9, 3, 2, gate=True)
    x = torch.randn(4, 9, 8)
    torch.testing.assert_close(gated(x), plain(x))
    assert gated.gate is not None
    torch.nn.init.normal_(gated.gate.weight)
    weights = gated.weights(x)
    torch.testing.assert_close(weights.sum(1), torch.full((4,), 2.0))
    expected = plain(x).unflatten(1, (2, -1)) * weights[:, :, None, None]
    torch.testing.assert_close(gated(x), expected.flatten(1, 2))
    gated(x).square().sum().backward()
    assert gated.gate.weight.grad is not None and gated.gate.weight.grad.abs().sum() > 0


def test_an_expert_without_tokens_of_its_own_is_refused() -> None:
    with pytest.raises(ValueError, match="too few for 3 experts"):
        experts(5, 3, 3)
