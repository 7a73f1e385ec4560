"""DCNv2: the recurrence by loops, and low rank equal to the full matrix that it factors."""

import pytest
import torch
from torch import nn

from models.layers.cross import CrossNetV2, CrossTokens


def by_loop(module: CrossNetV2, x_W: torch.Tensor) -> torch.Tensor:
    crossed = x_W
    for layer in module.layers:
        low = isinstance(layer, nn.Sequential)
        weight, bias = (layer[1].weight @ layer[0].weight, layer[1].bias) if low else (layer.weight, layer.bias)
        crossed = torch.stack([x_W[i] * (weight[i] @ crossed + bias[i]) + crossed[i] for i in range(len(x_W))])
    return crossed


@pytest.mark.parametrize("rank", [None, 1, 3])
@pytest.mark.parametrize("layers", [0, 1, 3])
def test_equals_the_recurrence_forward_and_backward(rank: int | None, layers: int) -> None:
    torch.manual_seed(layers)
    module, x = CrossNetV2(6, layers, rank), torch.randn(4, 6, requires_grad=True)
    expected, got = torch.stack([by_loop(module, one) for one in x]), module(x)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    wanted = torch.randn_like(got)
    slow, fast = (torch.autograd.grad(out, [x, *module.parameters()], wanted) for out in (expected, got))
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_one_layer_is_of_second_degree() -> None:
    module, x = CrossNetV2(5, 1).double(), torch.randn(5).double()

    def along(step: float) -> torch.Tensor:
        return module((step * x)[None])[0]

    third = along(3.0) - 3 * along(2.0) + 3 * along(1.0) - along(0.0)
    second = along(2.0) - 2 * along(1.0) + along(0.0)
    assert third.abs().max() < 1e-10 < second.abs().max()


def test_tokens_are_crossed_side_by_side() -> None:
    module, x = CrossTokens(tokens=3, dim=4, layers=2, rank=2), torch.randn(5, 3, 4)
    assert module.out_tokens == 3
    torch.testing.assert_close(module(x), module.cross(x.reshape(5, 12)).reshape(5, 3, 4))
