"""The trunk: from the interaction vector to what the heads read; its last layer is a mixture of domain experts.

With one shared expert and none of a surface's own it is a plain MLP, which is also what it is without the mixture.
"""

from torch import Tensor, nn

from models.gem.config import GemConfig
from models.layers.domain_experts import DomainExperts
from models.layers.mlp import MLP, hidden_layers


class Trunk(nn.Module):
    """[B, w] and surfaces int64 [B] -> hidden activations [B, last of `head_hidden`].

    Args:
        width: w.
        config: sizes.
        surfaces: number of surfaces.
    """

    def __init__(self, width: int, config: GemConfig, surfaces: int) -> None:
        super().__init__()
        *hidden, out = config.head_hidden
        self.experts: DomainExperts | None = None
        if not config.domain_experts:
            self.mlp: nn.Module = nn.Sequential(MLP(width, hidden, out, config.dropout), nn.ReLU())
            return
        self.mlp = nn.Sequential(*hidden_layers(width, hidden, config.dropout))
        self.experts = DomainExperts(
            hidden[-1] if hidden else width,
            out,
            surfaces,
            shared=config.domain_experts,
            own=config.surface_experts,
            temperature=config.expert_temperature,
        )

    def forward(self, x: Tensor, surface: Tensor) -> Tensor:
        """[B, w] and surfaces [B] -> [B, out], not negative."""
        x = self.mlp(x)
        return x if self.experts is None else self.experts(x, surface)
