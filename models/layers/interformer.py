"""InterFormer: features and history learn side by side and tell one another, layer by layer, through small summaries.

Per layer a cross arch makes two summaries, X_sum of the features and S_sum of the history; the interaction arch reads
[X; S_sum], the sequence arch is personalised by X_sum, and both keep the shape of what they are given. Source: arXiv
2411.09852 v4, section 3; where it is silent (pre-norm residuals, per-token MLPs) this file chooses. The history is in
packed blocks, with X_sum of the input features among it as CLS rows. Shapes: R rows, n tokens, N blocks of L slots,
d width.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from models.layers.blocks import BlockLayout
from models.layers.gdpa import gdpa
from models.layers.mlp import MLP
from models.layers.norm import normalise
from models.layers.pooling import AttentionPooling
from models.layers.rotary import Rotation

Flow = Literal["none", "x_to_s", "s_to_x", "both"]
"""Who tells whom: features the history, the history the features."""


@dataclass(frozen=True, kw_only=True)
class SummarySizes:
    """Tokens of the summaries; the defaults are those reported for the public data sets.

    Attributes:
        context: n_sum, rows of X_sum, which are also the CLS rows.
        pooled: p, rows pooled by learned queries.
        recent: K, most recent rows.
    """

    context: int = 4
    pooled: int = 2
    recent: int = 2

    @property
    def history(self) -> int:
        """Rows of S_sum."""
        return self.context + self.pooled + self.recent


class SelfGate(nn.Module):
    """sigma(MLP(Z)) * Z, token by token; as the paper prints it, sigma(Z * MLP(Z)), all of Z is squeezed into (0, 1).

    Args:
        dim: d.
        printed: take the printed form.
    """

    def __init__(self, dim: int, *, printed: bool = False) -> None:
        super().__init__()
        self.printed = printed
        self.mix = MLP(dim, (dim,), dim)

    def forward(self, z_RND: Tensor) -> Tensor:
        """[R, n, d] -> [R, n, d]."""
        mixed: Tensor = self.mix(z_RND)
        return (z_RND * mixed).sigmoid() if self.printed else mixed.sigmoid() * z_RND


class ContextSummary(nn.Module):
    """X_sum = Gate(LCE(X)): a linear map over tokens (LCE, linear compressed embedding), then the gate.

    Args:
        tokens: n.
        dim: d.
        summary: n_sum, tokens made.
        printed: see `SelfGate`.
    """

    def __init__(self, *, tokens: int, dim: int, summary: int, printed: bool = False) -> None:
        super().__init__()
        self.compress = nn.Parameter(torch.randn(summary, tokens) * tokens**-0.5)
        self.gate = SelfGate(dim, printed=printed)

    def forward(self, x_RND: Tensor) -> Tensor:
        """[R, n, d] -> [R, n_sum, d]."""
        gated: Tensor = self.gate(self.compress @ x_RND)
        return gated


class HistorySummary(nn.Module):
    """S_sum = Gate([CLS rows; rows pooled by learned queries (PMA); most recent rows]).

    Args:
        dim: d.
        heads: of the pooling.
        sizes: rows of each kind; CLS rows stand at the newest end of every row (`with_cls`), and most recent are the
            newest events before them, zeros where a row has fewer.
        printed: see `SelfGate`.
    """

    def __init__(self, *, dim: int, heads: int, sizes: SummarySizes, printed: bool = False) -> None:
        super().__init__()
        self.sizes = sizes
        self.pool = AttentionPooling(dim, heads, sizes.pooled)
        self.gate = SelfGate(dim, printed=printed)

    def forward(self, s_NLD: Tensor, layout: BlockLayout) -> Tensor:
        """Blocks [N, L, d] -> [R, `sizes.history`, d]."""
        rows = newest(s_NLD, layout, self.sizes.recent + self.sizes.context)
        recent, cls = rows.split([self.sizes.recent, self.sizes.context], dim=1)
        gated: Tensor = self.gate(torch.cat([cls, self.pool(s_NLD, layout), recent], dim=1))
        return gated


def newest(s_NLD: Tensor, layout: BlockLayout, count: int) -> Tensor:
    """The newest `count` tokens of every row, oldest first: [R, count, d]; zeros in front where a row has fewer."""
    block = layout.mask.shape[1]
    length = layout.sum_by_row(layout.mask.sum(1))
    place = torch.arange(count - 1, -1, -1, device=length.device)
    last_block = torch.cumsum(layout.blocks, 0) - 1
    slot = (last_block[:, None] - place // block) * block + block - 1 - place % block
    there = place < length[:, None]
    if not len(s_NLD):
        return s_NLD.new_zeros(layout.rows, count, s_NLD.shape[2])
    found = s_NLD.flatten(0, 1)[torch.where(there, slot, 0)]
    return torch.where(there[..., None], found, 0.0)


def with_cls(
    s_NLD: Tensor, layout: BlockLayout, cls_RCD: Tensor, rotation: Rotation | None = None
) -> tuple[Tensor, BlockLayout, Rotation | None]:
    """Put c CLS tokens at the newest end of every row, where a partial block is never theirs; they are not rotated.

    (The paper prepends them; order means nothing to its attention, but in blocks the newest events matter most.)

    Returns:
        Blocks, layout and rotation of the longer rows.
    """
    count = cls_RCD.shape[1]
    length = layout.sum_by_row(layout.mask.sum(1))
    longer = BlockLayout.of(length + count, layout.mask.shape[1])
    row = torch.repeat_interleave(torch.arange(layout.rows, device=length.device), length)
    events = torch.arange(len(row), device=row.device) + count * row
    ends = torch.cumsum(length + count, 0)[:, None] - count + torch.arange(count, device=row.device)

    def join(x_NLE: Tensor, cls_RCE: Tensor) -> Tensor:
        flat = x_NLE.new_zeros(len(row) + ends.numel(), x_NLE.shape[2])
        flat = flat.index_copy(0, events, layout.unpack(x_NLE))
        return longer.pack(flat.index_copy(0, ends.flatten(), cls_RCE.flatten(0, 1)))

    if rotation is None:
        return join(s_NLD, cls_RCD), longer, None
    still = rotation.cos.new_zeros(*ends.shape, rotation.cos.shape[2])
    return join(s_NLD, cls_RCD), longer, Rotation(join(rotation.cos, still + 1.0), join(rotation.sin, still))


class PersonalisedFeedForward(nn.Module):
    """PFFN: each event times a matrix of its own row's, W = X_sum^T A, which has at most rank n_sum.

    W s = sum over j of (a_j . s) x_j, so it is GDPA with the identity for activation, and W is never written out.

    Args:
        dim: d.
        summary: n_sum.
    """

    def __init__(self, dim: int, summary: int) -> None:
        super().__init__()
        self.keys_CD = nn.Parameter(torch.randn(summary, dim) * dim**-0.5)

    def forward(self, s_NLD: Tensor, context_RCD: Tensor, row_N: Tensor) -> Tensor:
        """Blocks [N, L, d], summaries [R, n_sum, d], each block's row [N] -> [N, L, d], without a residual."""
        return gdpa(s_NLD, self.keys_CD, context_RCD[row_N], activation="identity")


class SequenceArch(nn.Module):
    """S' = MHA(PFFN(X_sum, S)), each with a pre-norm residual.

    Args:
        dim: d.
        summary: n_sum.
        attention: a module of `models.layers.attention`.
    """

    def __init__(self, *, dim: int, summary: int, attention: nn.Module) -> None:
        super().__init__()
        self.feedforward = PersonalisedFeedForward(dim, summary)
        self.attention = attention

    def forward(
        self, s_NLD: Tensor, layout: BlockLayout, context_RCD: Tensor, rotation: Rotation | None = None
    ) -> Tensor:
        """Blocks [N, L, d], summaries [R, n_sum, d] -> [N, L, d]."""
        s_NLD = s_NLD + self.feedforward(normalise(s_NLD), context_RCD, layout.row)
        attended: Tensor = self.attention(s_NLD, layout, rotation)
        return attended


class InteractionArch(nn.Module):
    """X' = X + MLP(LN(Interaction([X; S_sum]))), back to as many rows as X has.

    Args:
        tokens: n.
        dim: d.
        interaction: any module [R, n + s, d] -> [R, m, d] that says m as `out_tokens` (dot, DCNv2, DHEN, Wukong).
    """

    def __init__(self, *, tokens: int, dim: int, interaction: nn.Module) -> None:
        super().__init__()
        made = interaction.out_tokens
        assert isinstance(made, int)
        self.interaction = interaction
        self.rows = nn.Parameter(torch.randn(tokens, made) * made**-0.5) if made != tokens else None
        self.mix = MLP(dim, (2 * dim,), dim)

    def forward(self, x_RND: Tensor, history_RTD: Tensor) -> Tensor:
        """[R, n, d], summaries [R, s, d] -> [R, n, d]."""
        made = self.interaction(torch.cat([x_RND, history_RTD], dim=1))
        rows = made if self.rows is None else self.rows @ made
        mixed: Tensor = self.mix(normalise(rows))
        return x_RND + mixed


class LearnedTokens(nn.Module):
    """In place of a summary: learned tokens, the same for all rows.

    Args:
        tokens: how many.
        dim: d.
    """

    def __init__(self, tokens: int, dim: int) -> None:
        super().__init__()
        self.tokens_ND = nn.Parameter(torch.randn(tokens, dim))

    def forward(self, rows: int) -> Tensor:
        """[R, tokens, d]."""
        return self.tokens_ND.expand(rows, -1, -1)


class InterFormerLayer(nn.Module):
    """One layer: (X, S) -> (X', S') of the same shapes.

    A flow that does not run is replaced by learned tokens, so that both arches keep their sizes and only what they are
    told differs.

    Args:
        tokens: n.
        dim: d.
        heads: of the pooling.
        sizes: of the summaries.
        interaction: of n + `sizes.history` tokens, see `InteractionArch`.
        attention: see `SequenceArch`.
        flow: who tells whom.
        printed: see `SelfGate`.
    """

    def __init__(
        self,
        *,
        tokens: int,
        dim: int,
        heads: int,
        sizes: SummarySizes,
        interaction: nn.Module,
        attention: nn.Module,
        flow: Flow = "both",
        printed: bool = False,
    ) -> None:
        super().__init__()
        self.x_to_s, self.s_to_x = flow in ("x_to_s", "both"), flow in ("s_to_x", "both")
        self.context = (
            ContextSummary(tokens=tokens, dim=dim, summary=sizes.context, printed=printed)
            if self.x_to_s
            else LearnedTokens(sizes.context, dim)
        )
        self.history = (
            HistorySummary(dim=dim, heads=heads, sizes=sizes, printed=printed)
            if self.s_to_x
            else LearnedTokens(sizes.history, dim)
        )
        self.features = InteractionArch(tokens=tokens, dim=dim, interaction=interaction)
        self.sequence = SequenceArch(dim=dim, summary=sizes.context, attention=attention)

    def forward(
        self, x_RND: Tensor, s_NLD: Tensor, layout: BlockLayout, rotation: Rotation | None = None
    ) -> tuple[Tensor, Tensor]:
        """Features [R, n, d] and history [N, L, d] (with CLS rows) -> the same."""
        rows = len(x_RND)
        told = self.context(x_RND if self.x_to_s else rows)
        heard = self.history(s_NLD, layout) if self.s_to_x else self.history(rows)
        return self.features(x_RND, heard), self.sequence(s_NLD, layout, told, rotation)
