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
        self.layers = nn.Sequential(*hidden_layers(width, hidden, dropout))
        self.layers.append(nn.Linear(hidden[-1] if hidden else width, out))

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] -> [..., out]."""
        result: Tensor = self.layers(x)
        return result


def hidden_layers(width: int, hidden: Sequence[int], dropout: float = 0.0) -> list[nn.Module]:
    """Linear, ReLU, dropout for each hidden width."""
    layers: list[nn.Module] = []
    for size in hidden:
        layers += [nn.Linear(width, size), nn.ReLU()]
        layers += [nn.Dropout(dropout)] if dropout else []
        width = size
    return layers
