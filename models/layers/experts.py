"""Mixture of Wukong experts: each expert sees the shared tokens and its own part of the others.

Nobody routes: which tokens an expert sees is fixed, so experts can live on different devices. Tokens are dealt out like
cards, and the outputs of all experts are concatenated; an expert of the next layer is therefore dealt some of each of
them, and every token can meet every other after two layers. Source: Kunlun, arXiv 2602.10016 (summaries: parallel
experts over a partition of [X_sum; H_sum], no router); shared tokens, the dealing and the gate are chosen here.
Shapes: B examples, n tokens, s of them shared, d width, M experts.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.layers.norm import normalise
from models.layers.wukong import WukongLayer


class WukongExperts(nn.Module):
    """[B, n, d] -> [B, M (n_F + n_L), d]; the first s tokens are shared. With one expert it is that Wukong layer.

    `out_tokens` is M (n_F + n_L).

    Args:
        tokens: n.
        shared: s.
        dim: d.
        experts: M.
        fm_tokens: n_F of each expert.
        linear_tokens: n_L of each expert.
        rank: k of each expert.
        hidden: hidden widths of each expert's FM block.
        dropout: rate inside the MLPs.
        gate: weigh the experts by a softmax of the mean token; all weights are 1 at first.
        attentive: see `WukongLayer`.

    Raises:
        ValueError: an expert would see no token of its own.
    """

    def __init__(
        self,
        *,
        tokens: int,
        shared: int,
        dim: int,
        experts: int,
        fm_tokens: int,
        linear_tokens: int,
        rank: int,
        hidden: Sequence[int],
        dropout: float = 0.0,
        gate: bool = False,
        attentive: bool = False,
    ) -> None:
        super().__init__()
        if not 0 <= shared <= tokens - experts:
            raise ValueError(f"{tokens} tokens, {shared} of them shared, leave too few for {experts} experts")
        self.shared = shared
        self.experts = nn.ModuleList(
            WukongLayer(
                tokens=shared + len(range(shared + expert, tokens, experts)),
                dim=dim,
                fm_tokens=fm_tokens,
                linear_tokens=linear_tokens,
                rank=rank,
                hidden=hidden,
                dropout=dropout,
                attentive=attentive,
            )
            for expert in range(experts)
        )
        self.out_tokens = experts * (fm_tokens + linear_tokens)
        self.gate = nn.Linear(dim, experts) if gate else None
        if self.gate is not None:
            nn.init.zeros_(self.gate.weight)
            nn.init.zeros_(self.gate.bias)

    def seen(self, x_BND: Tensor, expert: int) -> Tensor:
        """The tokens of one expert: the shared ones and every M-th of the others, [B, n_m, d]."""
        own = x_BND[:, self.shared + expert :: len(self.experts)]
        return torch.cat([x_BND[:, : self.shared], own], dim=1)

    def forward(self, x_BND: Tensor) -> Tensor:
        """[B, n, d] -> [B, M (n_F + n_L), d]."""
        made = torch.stack([expert(self.seen(x_BND, place)) for place, expert in enumerate(self.experts)], dim=1)
        if self.gate is not None:
            made = made * self.weights(x_BND)[..., None, None]
        return made.flatten(1, 2)

    def weights(self, x_BND: Tensor) -> Tensor:
        """What each expert's output is multiplied by, [B, M]; they add up to M."""
        assert self.gate is not None, "made without a gate"
        return len(self.experts) * self.gate(normalise(x_BND.mean(1))).softmax(-1)
