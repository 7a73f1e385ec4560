"""Domain experts: a customised gate control over shared experts and the experts of a row's own surface.

h = sum over e of softmax(G_s x / temperature)_e E_e(x), e over K shared experts and the E own ones of surface s; an
expert is a linear layer with ReLU. A row is never compared with another surface's experts, so what a surface owns is
moved by its own data alone. The temperature keeps gates from collapsing on one expert. A surface that was never
trained on is answered by the shared experts: its own are left out of its gate until it has been seen. Source: PLE
(Tang et al., RecSys 2020), one extraction layer; temperature, seen surfaces and the grouping of rows are chosen here.
Shapes: B rows, S surfaces, K shared and E own experts, i in, o out.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn


class DomainExperts(nn.Module):
    """[B, i] and surfaces int64 [B] -> [B, o].

    Rows are grouped by surface, and only surfaces of the batch are visited. Weights are never copied by row.

    Args:
        width: i.
        out: o.
        surfaces: S.
        shared: K.
        own: E; 0 leaves the shared experts alone.
        temperature: divides the gates' logits.

    Raises:
        ValueError: no shared expert, or a temperature that is not positive.
    """

    BY_SURFACE = ("gate", "own_weight", "own_bias")
    """Parameters whose first dimension is the surface."""
    seen: Tensor
    own_weight: nn.Parameter
    own_bias: nn.Parameter
    watch: Callable[[Tensor, Tensor], None] | None = None
    """Given the gate's weights and the surfaces of every batch in training."""

    def __init__(
        self, width: int, out: int, surfaces: int, *, shared: int = 2, own: int = 1, temperature: float = 4.0
    ) -> None:
        super().__init__()
        if shared < 1 or own < 0 or not temperature > 0:
            raise ValueError(
                f"{shared} shared and {own} own experts at temperature {temperature}: give at least one shared expert, "
                "which answers for new surfaces, and a temperature above 0"
            )
        self.shared_experts, self.own_experts, self.out, self.temperature = shared, own, out, temperature
        bound = 1 / math.sqrt(width)
        self.shared = nn.Linear(width, shared * out)
        self.gate = nn.Parameter(torch.zeros(surfaces, shared + own, width))
        if own:
            self.own_weight = nn.Parameter(torch.empty(surfaces, own, width, out).uniform_(-bound, bound))
            self.own_bias = nn.Parameter(torch.empty(surfaces, own * out).uniform_(-bound, bound))
        self.register_buffer("seen", torch.zeros(surfaces, dtype=torch.bool))

    def forward(self, x: Tensor, surface: Tensor) -> Tensor:
        """[B, i] and surfaces [B] -> [B, o]."""
        return self.mixture(x, surface)[0]

    def mixture(self, x: Tensor, surface: Tensor) -> tuple[Tensor, Tensor]:
        """What `forward` gives, and the gate's weights [B, K + E], shared experts first; they add up to 1."""
        shared = self.shared(x).unflatten(1, (self.shared_experts, self.out))
        logits, own = self._by_surface(x, surface)
        if not self.training and self.own_experts:
            new = ~self.seen[surface]
            kept, masked = logits[:, : self.shared_experts], logits[:, self.shared_experts :]
            logits = torch.cat([kept, masked.masked_fill(new[:, None], -torch.inf)], dim=1)
        weights = (logits / self.temperature).softmax(-1)
        if self.training and self.watch is not None:
            self.watch(weights.detach(), surface)
        mixed = (torch.cat([shared, own], dim=1).relu() * weights[..., None]).sum(1)
        return mixed, weights

    def _by_surface(self, x: Tensor, surface: Tensor) -> tuple[Tensor, Tensor]:
        """Gate logits [B, K + E] and own experts before ReLU [B, E, o]."""
        if not len(x):
            return x.new_zeros(0, self.gate.shape[1]), x.new_zeros(0, self.own_experts, self.out)
        order = surface.argsort(stable=True)
        present, counts = surface[order].unique_consecutive(return_counts=True)
        # One selection of the rows that are used: a gradient of each slice would be as large as the whole.
        parts = x[order].split(counts.tolist())
        back = order.argsort()
        gates = self.gate[present].unbind()
        logits = torch.cat([part @ gate.T for part, gate in zip(parts, gates, strict=True)])[back]
        if not self.own_experts:
            return logits, x.new_zeros(len(x), 0, self.out)
        weights, biases = self.own_weight[present].unbind(), self.own_bias[present].unbind()
        own = [self._own(*entry) for entry in zip(parts, weights, biases, strict=True)]
        return logits, torch.cat(own)[back]

    def _own(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Own experts of one surface's rows: [b, i], [E, i, o], [E o] -> [b, E, o]."""
        return (x @ weight).transpose(0, 1) + bias.view(self.own_experts, self.out)

    @torch.no_grad()
    def see(self, surfaces: Tensor) -> None:
        """Let the own experts of these surfaces answer from now on; bool [S]."""
        self.seen |= surfaces.to(self.seen.device)
