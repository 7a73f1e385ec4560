"""Weight generation: a linear compression of tokens with an MLP on top."""

import torch

from models.layers.norm import normalise
from models.layers.summary import TokenSummary


def test_a_summary_is_the_compression_plus_what_the_mlp_makes_of_it() -> None:
    torch.manual_seed(0)
    module, x = TokenSummary(tokens=5, dim=4, out=2, hidden=8), torch.randn(3, 5, 4)
    got = module(x)
    for row, expected in zip(x, got, strict=True):
        compressed = torch.stack([sum(module.compress[i, j] * row[j] for j in range(5)) for i in range(2)])
        mixed = module.mix(torch.cat([normalise(token) for token in compressed])).view(2, 4)
        torch.testing.assert_close(expected, compressed + mixed, rtol=1e-5, atol=1e-5)
