"""Small parts: heads conditioned on the surface, MLP shapes, normalisation."""

import torch

from models.layers.heads import TaskHeads
from models.layers.mlp import MLP
from models.layers.norm import Norm, normalise


def test_surfaces_are_equal_at_the_start_and_learn_apart() -> None:
    heads, x = TaskHeads(6, 2, 3), torch.randn(4, 6)
    start = heads(x, torch.zeros(4, dtype=torch.long))
    torch.testing.assert_close(start, heads(x, torch.full((4,), 2)))
    torch.testing.assert_close(start, heads.tasks(x))
    heads(x, torch.ones(4, dtype=torch.long)).square().sum().backward()
    for table in (heads.gate, heads.bias):
        assert table is not None and table.weight.grad is not None
        assert table.weight.grad[1].any() and not table.weight.grad[[0, 2]].any()


def test_without_conditioning_a_surface_has_its_biases_alone() -> None:
    heads, x = TaskHeads(6, 2, 3, conditioned=False), torch.randn(4, 6)
    torch.nn.init.normal_(heads.bias.weight)
    torch.testing.assert_close(heads(x, torch.full((4,), 2)), heads.tasks(x) + heads.bias.weight[2])
    assert {name for name, _ in heads.named_parameters()} == {"bias.weight", "tasks.weight", "tasks.bias"}


def test_mlp_is_what_it_says() -> None:
    mlp = MLP(3, (4, 5), 2)
    assert mlp(torch.randn(7, 6, 3)).shape == (7, 6, 2)
    assert sum(p.numel() for p in mlp.parameters()) == 3 * 4 + 4 + 4 * 5 + 5 + 5 * 2 + 2
    assert len(MLP(3, (), 2).layers) == 1
    x = torch.randn(50, 3)
    noisy = MLP(3, (64,), 2, dropout=0.5)
    assert not torch.equal(noisy(x), noisy(x))
    torch.testing.assert_close(noisy.eval()(x), noisy(x))


def test_normalise_has_no_parameters_and_survives_zeros() -> None:
    x = normalise(torch.randn(5, 8) * 3 + 2)
    torch.testing.assert_close(x.mean(-1), torch.zeros(5), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std(-1, correction=0), torch.ones(5), atol=1e-3, rtol=0)
    assert not normalise(torch.zeros(2, 8)).any()
    assert not list(Norm().parameters())
