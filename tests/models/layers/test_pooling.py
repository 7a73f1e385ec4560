"""Seed pooling against padded softmax attention, SumKron against Kronecker products."""

import torch

from models.layers.blocks import BlockLayout
from models.layers.norm import normalise
from models.layers.pooling import SeedPooling, SumKronLinear


def test_sum_kron_equals_kronecker_products() -> None:
    module = SumKronLinear(seeds=5, tokens=3, dim=4, terms=2).double()
    h = torch.randn(6, 5, 4, dtype=torch.double)
    matrix = sum(torch.kron(z.T.contiguous(), w.T.contiguous()) for z, w in zip(module.left, module.right, strict=True))
    torch.testing.assert_close(module(h).flatten(1), h.flatten(1) @ matrix.T)
    assert sum(p.numel() for p in module.parameters()) == 2 * (5 * 3 + 4 * 4)


def test_attend_equals_softmax_over_each_whole_row() -> None:
    lengths, x = torch.tensor([9, 0, 3, 1]), torch.randn(13, 8)
    module, layout = SeedPooling(dim=8, heads=2, seeds=5, tokens=3, terms=2), BlockLayout.of(lengths, 4)
    got, start = module.attend(layout.pack(x), layout), 0
    for row, length in enumerate(lengths.tolist()):
        k, v = module.keys_values(normalise(x[start : start + length])).split(8, -1)
        start += length
        for head in (slice(0, 4), slice(4, 8)):
            q = normalise(module.seeds_MD[:, head])
            expected = (q @ normalise(k[:, head]).T / 2.0).softmax(-1) @ v[:, head]
            torch.testing.assert_close(got[row][:, head], expected, rtol=1e-5, atol=1e-5)
    assert not got[1].any()  # no events, no summary


def test_no_rows_at_all() -> None:
    layout = BlockLayout.of(torch.zeros(0, dtype=torch.long), 4)
    module = SeedPooling(dim=8, heads=2, seeds=5, tokens=3, terms=2)
    assert module(layout.pack(torch.zeros(0, 8)), layout).shape == (0, 3, 8)
