"""Embedding tables asked and answered by feature name, in plain PyTorch: for models of one process, and for serving.

Parameter names are those of TorchRec's EmbeddingCollection (`collection.embeddings.<table>.weight`), so weights
of a sharded model load into this one. All rows start at zero: a row that was never trained is the same whatever
the seed, and zero is the defined default.
"""

from typing import Any

import torch
from torch import Tensor, nn

from models.interfaces import Inputs, Schema

HISTORY_PREFIX = "history."
TABLES_PREFIX = "embeddings.collection."
"""Starts the names of a model's embedding rows, in this form and in TorchRec's."""


def history_key(field: str) -> str:
    """Feature name of a history field among all features."""
    return HISTORY_PREFIX + field


def mean_by_bag(x_MD: Tensor, lengths_B: Tensor) -> Tensor:
    """Mean vector of each bag: [M, d] -> [B, d]; zeros where a bag holds nothing.

    A mean, so that the number of values does not change the scale.
    """
    owner = torch.repeat_interleave(torch.arange(len(lengths_B), device=x_MD.device), lengths_B)
    total = x_MD.new_zeros(len(lengths_B), x_MD.shape[1]).index_add(0, owner, x_MD)
    return total / lengths_B.clamp(min=1)[:, None]


def tables_of_features(schema: Schema) -> dict[str, str]:
    """Feature name -> table, for categorical features and (by `history_key`) history fields."""
    found = {feature.name: feature.table for feature in schema.categorical}
    return found | {history_key(field.name): field.table for field in schema.history.fields}


class PlainTables(nn.Module):
    """Rows to vectors.

    Args:
        schema: features, history fields and tables.
        dim: d.
        sparse: give sparse gradients, for an optimizer that takes them.
        history: look up history fields too; a model that only compares their ids needs no vectors of them.
    """

    def __init__(self, schema: Schema, dim: int, *, sparse: bool = False, history: bool = True) -> None:
        super().__init__()
        self.names = [feature.name for feature in schema.categorical]
        self.multi = {feature.name for feature in schema.categorical if feature.multi}
        self.fields = [field.name for field in schema.history.fields] if history else []
        looked_up = {*self.names, *map(history_key, self.fields)}
        self.tables = {name: table for name, table in tables_of_features(schema).items() if name in looked_up}
        used = set(self.tables.values())
        rows = {table: count for table, count in schema.tables.items() if table in used}
        made = {table: _zeros(count, dim, sparse) for table, count in rows.items()}
        self.collection = nn.ModuleDict({"embeddings": nn.ModuleDict(made)})

    def forward(self, batch: Inputs) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Vectors by name: categorical features [B, d] each (a bag's mean), history fields [L, d] each."""
        tables: Any = self.collection["embeddings"]
        categorical = {
            name: mean_by_bag(tables[self.tables[name]](batch.bags[name]), batch.bag_lengths[name])
            if name in self.multi
            else tables[self.tables[name]](batch.categorical[name])
            for name in self.names
        }
        history = {name: tables[self.tables[history_key(name)]](batch.history[name]) for name in self.fields}
        return categorical, history

    @torch.no_grad()
    def untrained(self, batch: Inputs) -> dict[str, int]:
        """How many looked-up values of each categorical feature still have the default, zero; missing ones aside."""
        tables: Any = self.collection["embeddings"]
        found = {}
        for name in self.names:
            rows = batch.bags[name] if name in self.multi else batch.categorical[name]
            rows = rows[rows > 0]
            found[name] = int((tables[self.tables[name]].weight[rows] == 0).all(dim=1).sum())
        return found


def _zeros(rows: int, dim: int, sparse: bool) -> nn.Embedding:
    return nn.Embedding.from_pretrained(torch.zeros(rows, dim), freeze=False, sparse=sparse)
