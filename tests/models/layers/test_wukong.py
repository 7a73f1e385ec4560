"""Wukong: the low-rank form equals the naive one, fields permute with rows, and every part is there."""

import pytest
import torch

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
