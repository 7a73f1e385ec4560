"""DLRM's dot interaction against a loop over pairs."""

import pytest
import torch

from models.layers.dot import DotInteraction, pairs


def by_loop(x_ND: torch.Tensor) -> torch.Tensor:
    found = [x_ND[i] @ x_ND[j] for i in range(len(x_ND)) for j in range(i)]
    return torch.stack(found)


@pytest.mark.parametrize("tokens", [2, 3, 7])
def test_equals_a_loop_forward_and_backward(tokens: int) -> None:
    x = torch.randn(4, tokens, 5, requires_grad=True)
    module = DotInteraction(tokens=tokens, dim=5, out_tokens=3)
    loop = torch.stack([by_loop(one) for one in x])
    torch.testing.assert_close(pairs(x), loop, rtol=1e-5, atol=1e-5)
    expected, got = (loop @ module.mix.weight.T + module.mix.bias).view(4, 3, 5), module(x)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    wanted = torch.randn_like(got)
    slow, fast = (torch.autograd.grad(out, [x, *module.parameters()], wanted) for out in (expected, got))
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
