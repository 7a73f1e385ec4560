"""Poolings against softmax attention by row, forward and backward; SumKron against Kronecker products."""

import random

import pytest
import torch
from torch import nn

from models.layers.blocks import BlockLayout
from models.layers.norm import normalise
from models.layers.pooling import AttentionPooling, SeedAttention, SeedPooling, SumKronLinear

DRAWN = [[random.Random(seed).randrange(20) for _ in range(6)] for seed in range(3)]


def kronecker(module: SumKronLinear) -> torch.Tensor:
    """The whole (t d) x (m d) matrix of a row-major H."""
    terms = [torch.kron(z.T.contiguous(), w.T.contiguous()) for z, w in zip(module.left, module.right, strict=True)]
    return torch.stack(terms).sum(0)


@pytest.mark.parametrize(("seeds", "tokens", "dim", "terms"), [(5, 3, 4, 2), (2, 7, 3, 1), (6, 1, 2, 5)])
def test_sum_kron_equals_kronecker_products(seeds: int, tokens: int, dim: int, terms: int) -> None:
    module = SumKronLinear(seeds, tokens, dim, terms).double()
    h = torch.randn(6, seeds, dim, dtype=torch.double, requires_grad=True)
    wanted = torch.randn(6, tokens, dim, dtype=torch.double)
    variables = [h, module.left, module.right]
    fast, slow = module(h), (h.flatten(1) @ kronecker(module).T).unflatten(1, (tokens, dim))
    torch.testing.assert_close(fast, slow)
    both = (torch.autograd.grad(out, variables, wanted) for out in (fast, slow))
    for one, other in zip(*both, strict=True):
        torch.testing.assert_close(one, other)
    assert sum(p.numel() for p in module.parameters()) == terms * (seeds * tokens + dim * dim)


def by_row(module: SeedAttention, rows: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """What the seeds see, one row without padding and one head at a time; zeros where nothing is: [R, m, d]."""
    dim, outs = module.seeds_MD.shape[1], []
    size = dim // module.heads
    for x_TD in rows:
        k, v = module.keys_values(normalise(x_TD)).split(dim, -1)
        heads = []
        for part in (slice(h * size, (h + 1) * size) for h in range(module.heads)):
            scores = normalise(module.seeds_MD[:, part]) @ normalise(k[:, part]).T / size**0.5
            heads.append(scores.softmax(-1) @ v[:, part])
        outs.append(torch.cat(heads, -1))
    return torch.stack(outs)


POOLINGS = {
    "seeds": lambda: SeedPooling(dim=8, heads=2, seeds=5, tokens=3, terms=2),
    "attention": lambda: AttentionPooling(8, 2, 3),
}


@pytest.mark.parametrize("kind", POOLINGS)
@pytest.mark.parametrize("lengths", [[9, 0, 3, 1], [1], [0, 17], *DRAWN])
def test_equals_softmax_over_each_whole_row_forward_and_backward(kind: str, lengths: list[int]) -> None:
    torch.manual_seed(len(lengths))
    module = POOLINGS[kind]()
    assert isinstance(module, SeedPooling | AttentionPooling)
    after: nn.Module = module.combine if isinstance(module, SeedPooling) else module.out
    flat, wanted = torch.randn(sum(lengths), 8, requires_grad=True), torch.randn(len(lengths), 3, 8)
    expected = after(by_row(module, flat.split(lengths)))
    by_loop = torch.autograd.grad(expected, [flat, *module.parameters()], wanted)

    layout = BlockLayout.of(torch.tensor(lengths), 4)
    x_NLD = torch.where(layout.mask[..., None], layout.pack(flat.detach()), 50.0 + torch.randn(*layout.mask.shape, 8))
    x_NLD.requires_grad_(True)
    got = module(x_NLD, layout)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    by_blocks = torch.autograd.grad(got, [x_NLD, *module.parameters()], wanted)
    torch.testing.assert_close(layout.unpack(by_blocks[0]), by_loop[0], rtol=1e-5, atol=1e-5)
    assert not by_blocks[0][~layout.mask].any()
    for fast, slow in zip(by_blocks[1:], by_loop[1:], strict=True):
        torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", POOLINGS)
def test_rows_without_events_are_zeros_and_their_gradients_finite(kind: str) -> None:
    module, layout = POOLINGS[kind](), BlockLayout.of(torch.tensor([0, 2, 0]), 4)
    summary = module(layout.pack(torch.randn(2, 8)), layout)
    assert summary.shape == (3, 3, 8) and not summary[[0, 2]].any() and summary[1].any()
    summary.square().sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in module.parameters())


@pytest.mark.parametrize("kind", POOLINGS)
def test_no_rows_at_all(kind: str) -> None:
    layout = BlockLayout.of(torch.zeros(0, dtype=torch.long), 4)
    assert POOLINGS[kind]()(torch.zeros(0, 4, 8), layout).shape == (0, 3, 8)
