"""How often training touched each table row: a row with count 0 still holds the defined default."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from models.interfaces import Inputs
from models.layers.tables import PlainTables, history_key

if TYPE_CHECKING:
    from models.gem.embeddings import Embeddings


class TouchCounters(nn.Module):
    """One int64 counter per row of every table, local to this process.

    The buffers are not part of `state_dict`: their local values differ between ranks, so only the sum may be
    saved.
    """

    def __init__(self, tables: dict[str, int]) -> None:
        super().__init__()
        self.names = {table: f"table_{index}" for index, table in enumerate(tables)}
        for table, rows in tables.items():
            self.register_buffer(self.names[table], torch.zeros(rows, dtype=torch.int64), persistent=False)

    def counts(self) -> dict[str, Tensor]:
        """The live counters by table, int64 [rows]; write into them to restore."""
        return {table: self.get_buffer(name) for table, name in self.names.items()}

    @torch.no_grad()
    def update(self, embeddings: "Embeddings | PlainTables", batch: Inputs) -> None:
        """Count the rows that a training step on `batch` moves: those of examples with a due label.

        An event counts once per history, however many candidates saw it; every value of a bag counts.
        """
        counts = self.counts()
        active = batch.mask.any(dim=1)
        for name in embeddings.names:
            rows = batch.categorical[name][active] if name not in embeddings.multi else _items(batch, name, active)
            _add(counts[embeddings.tables[name]], rows)
        seen = torch.zeros(len(batch.history_lengths), dtype=torch.bool, device=active.device)
        seen[batch.rows_of_history[active]] = True
        events = torch.repeat_interleave(seen, batch.history_lengths)
        for name in embeddings.fields:
            _add(counts[embeddings.tables[history_key(name)]], batch.history[name][events])


def _items(batch: Inputs, name: str, active: Tensor) -> Tensor:
    return batch.bags[name][torch.repeat_interleave(active, batch.bag_lengths[name])]


def _add(counter: Tensor, rows: Tensor) -> None:
    counter += torch.bincount(rows, minlength=len(counter)).to(counter.device)
