"""Kunlun: layers of an interaction part and a sequence part that share two summaries.

In each layer, for a request: context tokens X_sum from its shared tokens; events attend to one another and to the
context (GDPA, the per-example feed-forward); seeds pool them into H_sum. Then for each candidate: a mixture of Wukong
experts over [X_sum; H_sum; the candidate's own tokens]. Request and history inform one another from layer to layer
without seeing a candidate. Source: arXiv 2602.10016 (summaries); what nobody published is chosen here and said so.
"""

import torch
from torch import Tensor, nn

from models.gem.backbone import Events, Sizes
from models.gem.config import GemConfig
from models.gem.schedule import Runs, schedule
from models.layers.attention import BlockSelfAttention, FullSelfAttention, WindowSelfAttention
from models.layers.cross_layer import CrossLayerPath
from models.layers.experts import WukongExperts
from models.layers.gdpa import GDPA
from models.layers.pooling import AttentionPooling, SeedPooling
from models.layers.summary import TokenSummary


def self_attention(config: GemConfig, number: int) -> nn.Module:
    """The self-attention of the n-th layer that has one."""
    if config.attention == "full":
        return FullSelfAttention(config.dim, config.attention_heads)
    if config.attention == "window":
        return WindowSelfAttention(config.dim, config.attention_heads, config.attention_window)
    return BlockSelfAttention(config.dim, config.attention_heads, shift=config.attention_shift and number % 2 == 1)


def pooling(config: GemConfig) -> nn.Module:
    """What makes a history's summary tokens: hierarchical seed pooling, or plain attention pooling."""
    if config.pooling == "attention":
        return AttentionPooling(config.dim, config.attention_heads, config.summary_tokens)
    return SeedPooling(
        dim=config.dim,
        heads=config.attention_heads,
        seeds=config.seeds,
        tokens=config.summary_tokens,
        terms=config.sum_kron_rank,
    )


class SequenceLayer(nn.Module):
    """One tower's part of a layer.

    Args:
        config: sizes.
        runs: what this layer computes.
        number: of the layer.
    """

    def __init__(self, config: GemConfig, runs: Runs, number: int) -> None:
        super().__init__()
        self.attention = self_attention(config, number) if runs.attention else None
        self.feedforward = GDPA(config.dim, config.attention_heads, config.activation) if runs.feedforward else None
        self.pool = pooling(config) if runs.summary else None

    def forward(self, events: Events, context_RCD: Tensor) -> tuple[Events, Tensor | None]:
        """Events and context tokens [R, c, d] -> events, and summary tokens [R, t, d] where this layer makes them."""
        x_NLD = events.x_NLD
        if self.attention is not None:
            x_NLD = self.attention(x_NLD, events.layout, events.rotation)
        if self.feedforward is not None:
            x_NLD = self.feedforward(x_NLD, context_RCD, events.layout.row)
        summary = None if self.pool is None else self.pool(x_NLD, events.layout)
        return events._replace(x_NLD=x_NLD), summary


class KunlunLayer(nn.Module):
    """One layer.

    Args:
        config: sizes.
        sizes: tokens that come in.
        runs: what the sequence part computes.
        number: of the layer.
    """

    def __init__(self, config: GemConfig, sizes: Sizes, runs: Runs, number: int) -> None:
        super().__init__()
        summaries = sizes.towers * config.summary_tokens
        self.context = TokenSummary(
            tokens=sizes.shared, dim=config.dim, out=config.context_tokens, hidden=config.context_hidden
        )
        self.sequences = nn.ModuleList(SequenceLayer(config, runs, number) for _ in range(sizes.towers))
        heard = config.context_tokens + summaries
        self.experts = WukongExperts(
            tokens=heard + sizes.own,
            shared=heard,
            dim=config.dim,
            experts=config.experts,
            fm_tokens=config.wukong_fm_tokens // config.experts,
            linear_tokens=config.wukong_linear_tokens // config.experts,
            rank=config.wukong_rank,
            hidden=config.wukong_hidden,
            dropout=config.dropout,
            gate=config.expert_gate,
            attentive=config.wukong_attentive,
        )
        # The last layer's request side ends here: nothing would read it.
        self.share = None
        if number + 1 < config.layers:
            self.share = TokenSummary(
                tokens=sizes.shared + summaries, dim=config.dim, out=sizes.shared, hidden=config.context_hidden
            )

    def forward(
        self, own_BND: Tensor, shared_RMD: Tensor, towers: list[Events], cached_RTD: Tensor | None, row_B: Tensor
    ) -> tuple[Tensor, Tensor, list[Events], Tensor]:
        """Tokens, histories and the summary of the layer before -> the same after this layer."""
        context = self.context(shared_RMD)
        passed = [sequence(events, context) for sequence, events in zip(self.sequences, towers, strict=True)]
        fresh = [summary for _, summary in passed if summary is not None]
        summary = torch.cat(fresh, dim=1) if fresh else cached_RTD
        assert summary is not None, "the first layer always summarises"
        heard = torch.cat([context, summary], dim=1)
        own = self.experts(torch.cat([heard[row_B], own_BND], dim=1))
        if self.share is not None:
            shared_RMD = self.share(torch.cat([shared_RMD, summary], dim=1))
        return own, shared_RMD, [events for events, _ in passed], summary


class Kunlun(nn.Module):
    """The backbone.

    Args:
        config: sizes.
        sizes: tokens that come in.
    """

    def __init__(self, config: GemConfig, sizes: Sizes) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        self.paths = nn.ModuleList()
        widths = [sizes.own]
        for number, runs in enumerate(schedule(config.layers, compskip=config.compskip)):
            layer = KunlunLayer(config, sizes._replace(own=widths[-1]), runs, number)
            self.layers.append(layer)
            made = layer.experts.out_tokens
            if config.cross_layer:
                self.paths.append(CrossLayerPath(config.dim, made, widths))
            widths.append(made)
        self.out_tokens = widths[-1]

    def forward(self, own_BND: Tensor, shared_RMD: Tensor, towers: list[Events], row_B: Tensor) -> Tensor:
        """See `models.gem.backbone.Backbone`."""
        summary: Tensor | None = None
        earlier = [own_BND]
        for number, layer in enumerate(self.layers):
            own_BND, shared_RMD, towers, summary = layer(own_BND, shared_RMD, towers, summary, row_B)
            if self.paths:
                own_BND = self.paths[number](own_BND, earlier)
            earlier.append(own_BND)
        return own_BND
