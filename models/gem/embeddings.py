"""GEM's embedding tables: one TorchRec EmbeddingCollection, asked and answered by feature name.

`Embeddings.collection` is the submodule that training may replace by a sharded one. All rows start at zero,
so a row that was never trained is the same whatever the seed: zero is the defined default. Its token is not
zero, because the model adds a learned vector per feature, and that is what lets gradients reach a zero row
through products.
"""

import torch
from torch import Tensor, nn
from torchrec.distributed.types import LazyAwaitable
from torchrec.modules.embedding_configs import EmbeddingConfig
from torchrec.modules.embedding_modules import EmbeddingCollection
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from models.interfaces import Inputs, Schema
from models.layers.tables import history_key, mean_by_bag, tables_of_features


def table_configs(schema: Schema, dim: int) -> list[EmbeddingConfig]:
    """One zero-initialised table per entry of `schema.tables` that a feature looks up."""
    features: dict[str, list[str]] = {}
    for feature in schema.categorical:
        features.setdefault(feature.table, []).append(feature.name)
    for field in schema.history.fields:
        features.setdefault(field.table, []).append(history_key(field.name))
    return [
        EmbeddingConfig(
            name=table,
            embedding_dim=dim,
            num_embeddings=rows,
            feature_names=features[table],
            init_fn=nn.init.zeros_,
        )
        for table, rows in schema.tables.items()
        if table in features
    ]


class Embeddings(nn.Module):
    """Rows to vectors.

    Args:
        schema: features, history fields and tables.
        dim: d.
        device: where tables live; `meta` when they will be sharded.
    """

    def __init__(self, schema: Schema, dim: int, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.names = [feature.name for feature in schema.categorical]
        self.multi = {feature.name for feature in schema.categorical if feature.multi}
        self.fields = [field.name for field in schema.history.fields]
        self.tables = tables_of_features(schema)
        where = torch.device(device) if device is not None else None
        self.collection = EmbeddingCollection(tables=table_configs(schema, dim), device=where)

    def keyed(self, batch: Inputs) -> KeyedJaggedTensor:
        """All ids as one KeyedJaggedTensor of stride B.

        Categorical features have one id per example, or a bag of them. A history field's R <= B sequences take the
        first R places.
        """
        rows = len(batch.surface)
        ones = batch.history_lengths.new_ones(rows)
        padding = batch.history_lengths.new_zeros(rows - len(batch.history_lengths))
        lengths = torch.cat([batch.history_lengths, padding])
        return KeyedJaggedTensor.from_lengths_sync(
            keys=[*self.names, *map(history_key, self.fields)],
            values=torch.cat(
                [batch.bags[name] if name in self.multi else batch.categorical[name] for name in self.names]
                + [batch.history[name] for name in self.fields]
            ),
            lengths=torch.cat(
                [batch.bag_lengths[name] if name in self.multi else ones for name in self.names]
                + [lengths] * len(self.fields)
            ),
        )

    def forward(self, batch: Inputs) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Vectors by name: categorical features [B, d] each (a bag's mean), history fields [L, d] each."""
        found = self.collection(self.keyed(batch))
        if isinstance(found, LazyAwaitable):
            found = found.wait()
        categorical = {
            name: mean_by_bag(found[name].values(), batch.bag_lengths[name])
            if name in self.multi
            else found[name].values()
            for name in self.names
        }
        return categorical, {name: found[history_key(name)].values() for name in self.fields}
