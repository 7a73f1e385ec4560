"""InterFormer with Wukong and a pyramid, the 2025 architecture, computed once per request where it can be.

Features and history of a request learn side by side and tell one another through summaries, layer by layer; each
candidate's own tokens hear both. The published model knows no split by request: there, X holds the candidate and the
history is personalised by it. Here nothing of a candidate reaches the history, so that it is encoded once. A pyramid
over the events, where it is asked for, adds coarse tokens of long histories. Source: arXiv 2411.09852 v4; GEM 2025.
"""

import torch
from torch import Tensor, nn

from models.gem.backbone import Events, Sizes
from models.gem.config import GemConfig
from models.gem.kunlun import self_attention
from models.layers.interformer import (
    ContextSummary,
    HistorySummary,
    InteractionArch,
    SequenceArch,
    SummarySizes,
    with_cls,
)
from models.layers.pyramid import Pyramid
from models.layers.wukong import WukongLayer


def interaction(config: GemConfig, tokens: int, heard: int) -> InteractionArch:
    """Wukong over some tokens and what they hear, back to as many tokens."""
    wukong = WukongLayer(
        tokens=tokens + heard,
        dim=config.dim,
        fm_tokens=config.wukong_fm_tokens,
        linear_tokens=config.wukong_linear_tokens,
        rank=config.wukong_rank,
        hidden=config.wukong_hidden,
        dropout=config.dropout,
        attentive=config.wukong_attentive,
    )
    return InteractionArch(tokens=tokens, dim=config.dim, interaction=wukong)


class InterFormerRequestLayer(nn.Module):
    """One layer.

    Args:
        config: sizes.
        sizes: tokens that come in.
        extra: tokens of the pyramid.
        number: of the layer; the last one leaves the request as it is, since nothing would read it.
    """

    def __init__(self, config: GemConfig, sizes: Sizes, extra: int, number: int) -> None:
        super().__init__()
        summary = SummarySizes(context=config.context_tokens, pooled=config.summary_tokens, recent=config.recent_tokens)
        self.context = ContextSummary(tokens=sizes.shared, dim=config.dim, summary=summary.context)
        self.histories = nn.ModuleList(
            HistorySummary(dim=config.dim, heads=config.attention_heads, sizes=summary) for _ in range(sizes.towers)
        )
        heard = sizes.towers * summary.history + extra
        self.own = interaction(config, sizes.own, summary.context + heard)
        last = number + 1 == config.layers
        self.shared = None if last else interaction(config, sizes.shared, heard)
        self.sequences = nn.ModuleList(
            SequenceArch(dim=config.dim, summary=summary.context, attention=self_attention(config, number))
            for _ in range(0 if last else sizes.towers)
        )

    def forward(
        self, own_BND: Tensor, shared_RMD: Tensor, towers: list[Events], extra_RED: Tensor, row_B: Tensor
    ) -> tuple[Tensor, Tensor, list[Events]]:
        """Tokens and histories (with CLS rows) -> the same."""
        told = self.context(shared_RMD)
        summaries = [
            summary(events.x_NLD, events.layout) for summary, events in zip(self.histories, towers, strict=True)
        ]
        heard = torch.cat([*summaries, extra_RED], dim=1)
        own = self.own(own_BND, torch.cat([told, heard], dim=1)[row_B])
        if self.shared is None:
            return own, shared_RMD, towers
        passed = [
            events._replace(x_NLD=sequence(events.x_NLD, events.layout, told, events.rotation))
            for sequence, events in zip(self.sequences, towers, strict=True)
        ]
        return own, self.shared(shared_RMD, heard), passed


class InterFormer(nn.Module):
    """The backbone.

    Args:
        config: sizes.
        sizes: tokens that come in.
    """

    def __init__(self, config: GemConfig, sizes: Sizes) -> None:
        super().__init__()
        self.out_tokens = sizes.own
        self.cls = ContextSummary(tokens=sizes.shared, dim=config.dim, summary=config.context_tokens)
        self.pyramids = nn.ModuleList(
            Pyramid(
                dim=config.dim,
                heads=config.attention_heads,
                levels=config.pyramid_levels,
                ratio=config.pyramid_ratio,
                tokens=config.summary_tokens,
                block=config.attention_block,
                rank=config.wukong_rank,
                seeds=config.seeds,
                terms=config.sum_kron_rank,
            )
            for _ in range(sizes.towers if config.pyramid_levels else 0)
        )
        extra = len(self.pyramids) * config.pyramid_levels * config.summary_tokens
        self.layers = nn.ModuleList(
            InterFormerRequestLayer(config, sizes, extra, number) for number in range(config.layers)
        )

    def forward(self, own_BND: Tensor, shared_RMD: Tensor, towers: list[Events], row_B: Tensor) -> Tensor:
        """See `models.gem.backbone.Backbone`."""
        cls = self.cls(shared_RMD)
        coarse = [
            pyramid(events.x_NLD, events.layout, cls, events.rotation)
            for pyramid, events in zip(self.pyramids, towers, strict=False)
        ]
        extra = torch.cat([cls[:, :0], *coarse], dim=1)
        towers = [Events(*with_cls(events.x_NLD, events.layout, cls, events.rotation)) for events in towers]
        for layer in self.layers:
            own_BND, shared_RMD, towers = layer(own_BND, shared_RMD, towers, extra, row_B)
        return own_BND
