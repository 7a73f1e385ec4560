"""Wukong: the low-rank form equals the naive one, the layer its formula by loops, and every part is there."""

import pytest
import torch

from models.layers.norm import normalise
from models.layers.wukong import WukongLayer, low_rank_fm


@pytest.mark.parametrize(("tokens", "dim", "rank"), [(1, 4, 1), (7, 5, 3), (24, 32, 8)])
def test_low_rank_equals_naive(tokens: int, dim: int, rank: int) -> None:
    x, y = torch.randn(6, tokens, dim, dtype=torch.double), torch.randn(tokens, rank, dtype=torch.double)
    torch.testing.assert_close(low_rank_fm(x, y), (x @ x.transpose(1, 2)) @ y, rtol=1e-6, atol=1e-6)


def test_identity_factors_give_the_full_gram_matrix() -> None:
    x = torch.randn(3, 5, 4, dtype=torch.double)
    torch.testing.assert_close(low_rank_fm(x, torch.eye(5, dtype=torch.double)), torch.einsum("bid,bjd->bij", x, x))


def test_permuting_fields_permutes_rows() -> None:
    x, y, order = torch.randn(3, 5, 4), torch.randn(5, 2), torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(low_rank_fm(x[:, order], y[order]), low_rank_fm(x, y)[:, order])


def layer(tokens: int) -> WukongLayer:
    return WukongLayer(tokens=tokens, dim=8, fm_tokens=3, linear_tokens=4, rank=2, hidden=(16,))


@pytest.mark.parametrize("tokens", [7, 10])
def test_shapes_and_gradients(tokens: int) -> None:
    module = layer(tokens)
    assert (module.residual is None) == (tokens == 7)
    x = torch.randn(5, tokens, 8, requires_grad=True)
    out = module(x)
    assert out.shape == (5, 7, 8)
    (out * torch.randn_like(out)).sum().backward()
    assert x.grad is not None and (x.grad.abs().sum((0, 2)) > 0).all()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters())


def test_a_zero_token_still_gets_a_gradient() -> None:
    x = torch.randn(5, 10, 8)
    x[:, 4] = 0.0
    x.requires_grad_()
    out = layer(10)(x)
    (out * torch.randn_like(out)).sum().backward()
    assert x.grad is not None and x.grad[:, 4].abs().min() > 0


def by_loop(module: WukongLayer, x_ND: torch.Tensor) -> torch.Tensor:
    """One example, over the whole Gram matrix, one output token at a time."""
    tokens = len(x_ND)
    factors = module.factors_NK
    if module.attend is not None:
        few = [sum(w * x for w, x in zip(row, x_ND, strict=True)) for row in module.attend.compress]
        factors = factors + module.attend.mix(normalise(torch.cat(few))).view(tokens, -1)
    gram = torch.stack([torch.stack([a @ b for b in x_ND]) for a in x_ND])
    made = module.fm(normalise((gram @ factors).flatten())).view(module.shape)
    rows = [*made, *(sum(w * x for w, x in zip(row, x_ND, strict=True)) for row in module.compress)]
    for place in range(len(rows) if module.skip else 0):
        mixing = torch.eye(tokens)[place] if module.residual is None else module.residual[place]
        rows[place] = rows[place] + sum(w * x for w, x in zip(mixing, x_ND, strict=True))
    return torch.stack([normalise(row) for row in rows])


@pytest.mark.parametrize("tokens", [7, 10])
@pytest.mark.parametrize("attentive", [False, True])
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("linear_tokens", [0, 4])
def test_equals_its_formula_by_loops_forward_and_backward(
    tokens: int, attentive: bool, skip: bool, linear_tokens: int
) -> None:
    torch.manual_seed(tokens)
    sizes = {"tokens": tokens, "dim": 8, "fm_tokens": 7 - linear_tokens, "linear_tokens": linear_tokens, "rank": 2}
    module = WukongLayer(**sizes, hidden=(16,), attentive=attentive, skip=skip)
    assert module.out_tokens == 7
    x, wanted = torch.randn(3, tokens, 8, requires_grad=True), torch.randn(3, 7, 8)
    expected, got = torch.stack([by_loop(module, one) for one in x]), module(x)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    learned = [x, *(p for p in module.parameters() if p.numel())]
    slow, fast = (torch.autograd.grad(out, learned, wanted) for out in (expected, got))
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_layer_of_full_rank_with_identity_factors_sees_the_whole_gram_matrix() -> None:
    module = WukongLayer(tokens=5, dim=4, fm_tokens=2, linear_tokens=3, rank=5, hidden=(8,))
    module.factors_NK.data.copy_(torch.eye(5))
    x, seen = torch.randn(3, 5, 4), []
    module.fm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    module(x)
    torch.testing.assert_close(seen[0], normalise(torch.einsum("bid,bjd->bij", x, x).flatten(1)))


def test_attentive_factors_differ_between_examples_and_free_ones_do_not() -> None:
    module = WukongLayer(tokens=5, dim=4, fm_tokens=2, linear_tokens=3, rank=2, hidden=(8,), attentive=True)
    assert module.attend is not None
    factors = module.attend(torch.randn(2, 5, 4))
    assert factors.shape == (2, 5, 2)
    assert (factors[0] - factors[1]).abs().min() > 0
