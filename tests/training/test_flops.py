"""Counted FLOPs equal those on paper, attention on the CPU included; backward counts both gradients."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from training.flops import count


def test_a_linear_map_costs_two_a_weight_and_row() -> None:
    layer, x = nn.Linear(5, 7, bias=False), torch.randn(3, 5, requires_grad=True)
    assert count(layer, x) == 2 * 3 * 5 * 7
    assert count(layer, x, backward=True) == 3 * 2 * 3 * 5 * 7


@pytest.mark.parametrize("masked", [False, True])
def test_fused_attention_is_counted(masked: bool) -> None:
    q, k = torch.randn(2, 3, 8, 16, requires_grad=True), torch.randn(2, 3, 10, 16, requires_grad=True)
    mask = torch.rand(2, 1, 1, 10) > 0.3 if masked else None

    def attend(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, k, attn_mask=mask)

    forward = 2 * 2 * 3 * 8 * 10 * (16 + 16)
    assert count(attend, q, k) == forward
    # scores once more, and two gradients of each of the two products
    assert count(attend, q, k, backward=True) == pytest.approx(3.5 * forward)


def test_counting_leaves_no_gradients() -> None:
    layer = nn.Linear(2, 2)
    count(layer, torch.randn(1, 2), backward=True)
    assert all(p.grad is None for p in layer.parameters())
