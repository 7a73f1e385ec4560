"""Matryoshka autoencoder: a wide activation as few numbers in [-1, 1], of which any prefix is a coarser version.

Source: LoopFM, arXiv 2605.29280 (abstract and summaries): the encoder ends in tanh; the loss adds up over
prefixes d' the error of decoding z with all numbers after d' set to zero.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.layers.mlp import MLP

SMALLEST_DEVIATION = 1e-6


class MatryoshkaAutoencoder(nn.Module):
    """Compress [B, D] to [B, d].

    Args:
        inputs: D.
        width: d.
        hidden: hidden widths of the encoder, mirrored in the decoder.
    """

    def __init__(self, inputs: int, width: int, hidden: Sequence[int] = (64,)) -> None:
        super().__init__()
        self.prefixes = sorted({max(1, width // 4), max(1, width // 2), width})
        self.encoder = MLP(inputs, hidden, width)
        self.decoder = MLP(width, tuple(reversed(hidden)), inputs)
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("deviation", torch.ones(inputs))

    @torch.no_grad()
    def fit_scale(self, activations: Tensor) -> None:
        """Take mean and deviation of each input from a sample [N, D]; an input that never varies stays at 0."""
        self.get_buffer("mean").copy_(activations.mean(0))
        self.get_buffer("deviation").copy_(activations.std(0, correction=0).clamp(min=SMALLEST_DEVIATION))

    def _scaled(self, activations: Tensor) -> Tensor:
        return (activations - self.get_buffer("mean")) / self.get_buffer("deviation")

    def encode(self, activations: Tensor) -> Tensor:
        """[B, D] -> [B, d], each number in [-1, 1]."""
        encoded: Tensor = self.encoder(self._scaled(activations)).tanh()
        return encoded

    def errors(self, activations: Tensor) -> Tensor:
        """Mean squared error, in units of each input's variance, of decoding every prefix: [P], shortest first."""
        target, encoded = self._scaled(activations), self.encode(activations)
        found = []
        for prefix in self.prefixes:
            kept = torch.cat([encoded[:, :prefix], torch.zeros_like(encoded[:, prefix:])], dim=1)
            found.append((self.decoder(kept) - target).square().mean())
        return torch.stack(found)
