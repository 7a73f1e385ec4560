"""Multi-layer perceptron: linear layers with ReLU between them."""

from collections.abc import Sequence

from torch import Tensor, nn


class MLP(nn.Module):
    """Linear, ReLU, dropout for each hidden width, then a linear layer.

    Args:
        width: input width.
        hidden: hidden widths; empty for a linear map.
        out: output width.
        dropout: rate after each hidden activation.
    """

    def __init__(self, width: int, hidden: Sequence[int], out: int, dropout: float = 0.0) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for size in hidden:
            layers += [nn.Linear(width, size), nn.ReLU()]
            layers += [nn.Dropout(dropout)] if dropout else []
            width = size
        self.layers = nn.Sequential(*layers, nn.Linear(width, out))

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] -> [..., out]."""
        result: Tensor = self.layers(x)
        return result
