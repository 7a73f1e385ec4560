"""Event tokens: heterogeneous events of one merged sequence become vectors of one width (OneSeq).

Views, clicks and purchases stand in one time-merged sequence. A projection of each type's own absorbs what differs
between them, so that all layers above can be shared; it starts as the identity, where types differ only by their
type embedding. Source: GEM's announcement names OneSeq and no more; the nearest published relative is the merge of
six sequences in InterFormer, arXiv 2411.09852.
"""

import torch
from torch import Tensor, nn

AGE_SCALES_DAYS = (0.25, 1.0, 7.0, 28.0, 120.0)


def age_features(age_days: Tensor) -> Tensor:
    """How long ago, on several scales: [T] -> [T, 6], each about in [0, 1]."""
    scales = age_days.new_tensor(AGE_SCALES_DAYS)
    return torch.cat([torch.log1p(age_days)[:, None] / 6.0, torch.exp(-age_days[:, None] / scales)], dim=1)


class EventTokens(nn.Module):
    """W_type (sum of the fields' embeddings) + embedding of the type + encoding of the age.

    Args:
        dim: d.
        types: event types, the unknown one included.
        projected: give each type a projection of its own.
    """

    def __init__(self, dim: int, types: int, *, projected: bool = False) -> None:
        super().__init__()
        self.kind = nn.Embedding(types, dim)
        self.age = nn.Linear(1 + len(AGE_SCALES_DAYS), dim)
        self.projections = nn.Parameter(torch.eye(dim).repeat(types, 1, 1)) if projected else None

    def forward(self, fields: list[Tensor], types: Tensor, age_days: Tensor) -> Tensor:
        """Field embeddings [T, d] each, types [T], ages [T] -> [T, d]."""
        token: Tensor = self.kind(types) + self.age(age_features(age_days))
        if not fields:
            return token
        return token + self._project(torch.stack(fields).sum(0), types)

    def _project(self, x_TD: Tensor, types: Tensor) -> Tensor:
        if self.projections is None:
            return x_TD
        out = torch.zeros_like(x_TD)
        for kind, projection in enumerate(self.projections):
            mine = torch.nonzero(types == kind).squeeze(1)
            out = out.index_copy(0, mine, x_TD[mine] @ projection)
        return out
