"""FLOPs of Kunlun on paper, by part: what its parts cost, which of them run, what CompSkip saves; and of the trunk.

A multiplication with an addition counts as two; element-wise work does not count. The sequence part is paid for every
slot of every block, padding included, once per request however many candidates it has. CompSkip leaves out half of
self-attention, half of the feed-forward, and of L summaries L / 2 - 1: it saves nearly half of the sequence part and
nothing else, so how much of the whole that is depends on the layer mix alone. Source of the idea: Kunlun, arXiv
2602.10016 (summaries), where the whole was 43 %.
"""

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from models.gem.backbone import Sizes
from models.gem.config import GemConfig
from models.gem.schedule import Runs, schedule
from models.layers.cross_layer import KEPT


class Load(NamedTuple):
    """What a backbone is given: R requests, their B candidates, and all slots of all blocks of their histories."""

    requests: int
    candidates: int
    slots: int


class Parts(NamedTuple):
    """FLOPs of a forward pass by part.

    Attributes:
        attention: self-attention of events.
        feedforward: GDPA of events, its keys and values included.
        summary: pooling of events.
        request: context tokens and the shared tokens' next state.
        interaction: experts and, where there is one, the cross-layer path.
    """

    attention: int
    feedforward: int
    summary: int
    request: int
    interaction: int

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self)

    @property
    def sequence(self) -> int:
        """What CompSkip takes from."""
        return self.attention + self.feedforward + self.summary


def mlp(rows: int, *widths: int) -> int:
    """A chain of linear maps through these widths."""
    return sum(2 * rows * width * out for width, out in pairwise(widths))


def attention(config: GemConfig, load: Load) -> int:
    """Self-attention in one layer.

    Raises:
        ValueError: full attention, whose cost is not a function of the number of slots.
    """
    if config.attention == "full":
        raise ValueError("full attention pads rows to the longest; its FLOPs have no closed form in the slots")
    seen = config.attention_block + 2 * config.attention_window * (config.attention == "window")
    return mlp(load.slots, config.dim, 4 * config.dim) + 4 * load.slots * seen * config.dim


def feedforward(config: GemConfig, load: Load, towers: int) -> int:
    """GDPA in one layer: queries and output of every slot, keys and values of every request."""
    tokens = config.context_tokens
    events = 2 * mlp(load.slots, config.dim, config.dim) + 4 * load.slots * tokens * config.dim
    return events + towers * mlp(load.requests * tokens, config.dim, 2 * config.dim)


def summary(config: GemConfig, load: Load, towers: int) -> int:
    """Pooling in one layer: keys and values of every slot, then few numbers of every request."""
    dim, tokens, rows = config.dim, config.summary_tokens, towers * load.requests
    seeds = config.seeds if config.pooling == "seeds" else tokens
    events = mlp(load.slots, dim, 2 * dim) + 4 * load.slots * seeds * dim
    if config.pooling == "attention":
        return events + mlp(rows * tokens, dim, dim)
    terms = config.sum_kron_rank
    return events + terms * mlp(rows * seeds, dim, dim) + 2 * rows * terms * seeds * tokens * dim


def token_summary(config: GemConfig, rows: int, tokens: int, out: int) -> int:
    """`models.layers.summary.TokenSummary`."""
    return 2 * rows * out * tokens * config.dim + mlp(rows, out * config.dim, config.context_hidden, out * config.dim)


def wukong(config: GemConfig, rows: int, tokens: int) -> int:
    """One expert over so many tokens."""
    dim, rank = config.dim, config.wukong_rank
    fm, kept = config.wukong_fm_tokens // config.experts, config.wukong_linear_tokens // config.experts
    machine = 4 * rows * tokens * dim * rank + mlp(rows, tokens * rank, *config.wukong_hidden, fm * dim)
    learned = kept if fm + kept == tokens else kept + fm + kept
    linear = 2 * rows * learned * tokens * dim
    if not config.wukong_attentive:
        return machine + linear
    return (
        machine + linear + 2 * rows * rank * tokens * dim + mlp(rows, rank * dim, *config.wukong_hidden, tokens * rank)
    )


def experts(config: GemConfig, rows: int, heard: int, own: int) -> int:
    """All experts of one layer: each sees what is heard and its part of a candidate's own tokens."""
    dealt = [len(range(expert, own, config.experts)) for expert in range(config.experts)]
    gate = mlp(rows, config.dim, config.experts) if config.expert_gate else 0
    return sum(wukong(config, rows, heard + mine) for mine in dealt) + gate


def cross_layer(config: GemConfig, rows: int, tokens: int, earlier: list[int]) -> int:
    """The cross-layer path of one layer."""
    dim, kept = config.dim, KEPT * len(earlier)
    compress = 2 * rows * KEPT * sum(earlier) * dim
    return compress + mlp(rows * kept, dim, 2 * dim) + mlp(rows * tokens, dim, dim) + 4 * rows * tokens * kept * dim


def kunlun(config: GemConfig, sizes: Sizes, load: Load) -> Parts:
    """FLOPs of one forward pass of `models.gem.kunlun.Kunlun`, to the last one."""
    runs = schedule(config.layers, compskip=config.compskip)
    count = Runs(*(sum(column) for column in zip(*runs, strict=True)))  # layers that run each part
    summaries = sizes.towers * config.summary_tokens
    heard, made = config.context_tokens + summaries, config.wukong_fm_tokens + config.wukong_linear_tokens
    widths = [sizes.own] + [made] * config.layers
    interaction = sum(experts(config, load.candidates, heard, own) for own in widths[:-1])
    if config.cross_layer:
        interaction += sum(
            cross_layer(config, load.candidates, made, widths[: number + 1]) for number in range(config.layers)
        )
    context = token_summary(config, load.requests, sizes.shared, config.context_tokens)
    share = token_summary(config, load.requests, sizes.shared + summaries, sizes.shared)
    return Parts(
        attention=count.attention * attention(config, load),
        feedforward=count.feedforward * feedforward(config, load, sizes.towers),
        summary=count.summary * summary(config, load, sizes.towers),
        request=config.layers * context + (config.layers - 1) * share,
        interaction=interaction,
    )


def trunk(config: GemConfig, width: int, rows: int) -> int:
    """`models.gem.trunk.Trunk` of an interaction vector this wide, whatever surfaces the rows are of."""
    *hidden, out = config.head_hidden
    if not config.domain_experts:
        return mlp(rows, width, *hidden, out)
    last, experts = (width, *hidden)[-1], config.domain_experts + config.surface_experts
    return mlp(rows, width, *hidden) + mlp(rows, last, experts * out) + mlp(rows, last, experts)


def saved(config: GemConfig, sizes: Sizes, load: Load) -> float:
    """Share of a forward pass's FLOPs that CompSkip leaves out."""
    part, whole = (kunlun(replace(config, compskip=skip), sizes, load).total for skip in (True, False))
    return 1 - part / whole
