"""Soft bins: each number bends alone, at its own knots."""

import torch

from models.layers.numbers import HIGHEST, LOWEST, NumberBins


def test_bins_equal_a_loop_forward_and_backward() -> None:
    torch.manual_seed(0)
    bins, x = NumberBins(3, 4), torch.randn(5, 3, requires_grad=True)
    torch.nn.init.normal_(bins.slopes)
    out = bins(x)
    rows = []
    for row in x:
        bent = [torch.relu(row[f] * bins.slopes[f, u] - bins.knots[f, u]) for f in range(3) for u in range(4)]
        rows.append(torch.cat([row, torch.stack(bent)]))
    expected = torch.stack(rows)
    assert out.shape == (5, bins.out)
    torch.testing.assert_close(out, expected)
    weight = torch.randn_like(out)
    torch.testing.assert_close(
        torch.autograd.grad((out * weight).sum(), x)[0], torch.autograd.grad((expected * weight).sum(), x)[0]
    )


def test_knots_start_inside_the_range_of_the_transforms_and_none_are_possible() -> None:
    assert (
        LOWEST < float(NumberBins(2, 8).knots.detach().min()) < float(NumberBins(2, 8).knots.detach().max()) < HIGHEST
    )
    x = torch.randn(4, 2)
    assert torch.equal(NumberBins(2, 0)(x), x)
    assert NumberBins(0, 8)(torch.zeros(4, 0)).shape == (4, 0)
