"""What a recipe costs on a world's schema: parameters, FLOPs an example, memory. Nothing is trained, no table is made.

The model is built with tables of two rows, since looking up costs no FLOPs, and asked about one request with a full
history; the real tables are counted from the schema. An example's share of its request depends on how many candidates
a request has, so their number is part of every answer.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from features.transform.batch import Batch
from features.transform.schema import FeatureSchema
from models.gem.config import GemConfig
from models.gem.model import Gem
from training.flops import count
from training.recipes import Recipe, RecipeError

FLOAT = 4
"""Bytes of a number."""
DAY_SECONDS = 86_400.0


@dataclass(frozen=True, kw_only=True)
class Size:
    """Costs of a recipe.

    Attributes:
        candidates: of the one request that was counted.
        events: of its history.
        dense: parameters outside of tables.
        tables: parameters of tables.
        rows: rows of tables, each with one number of optimizer state.
        largest_table: parameters of the largest table, whose gradient lives for a moment.
        forward: FLOPs an example of a forward pass.
        training: FLOPs an example of both passes.
        activations: bytes that autograd keeps of one request.
        requests: in a batch, as many as its rows make at that many candidates.
    """

    candidates: int
    events: int
    dense: int
    tables: int
    rows: int
    largest_table: int
    forward: float
    training: float
    activations: int
    requests: float

    @property
    def memory(self) -> dict[str, float]:
        """Bytes in training on one process, by what they hold.

        Adam keeps two numbers a dense parameter and averaging two more, row-wise Adagrad one a row; dense gradients
        live until the step, those of tables one table at a time.
        """
        return {
            "weights": FLOAT * (self.dense + self.tables),
            "optimizer": FLOAT * (4 * self.dense + self.rows),
            "gradients": FLOAT * (self.dense + self.largest_table),
            "activations": self.activations * self.requests,
        }


def size_of(recipe: Recipe, schema: FeatureSchema, *, candidates: int = 20, events: int | None = None) -> Size:
    """Count a recipe.

    Args:
        recipe: of GEM.
        schema: of a world.
        candidates: of each request.
        events: of each history; by default as many as the recipe reads.

    Raises:
        RecipeError: a recipe of a vertical, or impossible numbers.
    """
    if not isinstance(recipe.model, GemConfig):
        raise RecipeError(f"recipe {recipe.name} is of kind '{recipe.kind}'; sizes are counted of kind 'gem'")
    events = recipe.model.history_length if events is None else events
    if candidates < 1 or not 0 <= events <= recipe.model.history_length:
        raise RecipeError(
            f"recipe {recipe.name}: {candidates} candidates and {events} events; give at least 1 candidate "
            f"and at most its history_length, {recipe.model.history_length} events"
        )
    small = replace(schema, tables=dict.fromkeys(schema.tables, 2))
    with torch.random.fork_rng(devices=[]):
        model = Gem(small, recipe.model)
    batch = one_request(small, candidates, events)
    used = set(model.embeddings.tables.values())
    rows = [number for table, number in schema.tables.items() if table in used]
    return Size(
        candidates=candidates,
        events=events,
        dense=sum(p.numel() for name, p in model.named_parameters() if not name.startswith("embeddings.")),
        tables=sum(rows) * recipe.model.dim,
        rows=sum(rows),
        largest_table=max(rows, default=0) * recipe.model.dim,
        forward=count(model, batch) / candidates,
        training=count(model, batch, backward=True) / candidates,
        activations=kept_bytes(model, batch),
        requests=recipe.batch_size / candidates,
    )


def one_request(schema: FeatureSchema, candidates: int, events: int, seed: int = 0) -> Batch:
    """One request with a history that goes around all event types, an event a day; ids are random rows."""
    generator = torch.Generator().manual_seed(seed)

    def rows_of(table: str, number: int) -> Tensor:
        return torch.randint(1, schema.tables[table], (number,), generator=generator)

    single = [entry for entry in schema.categorical if not entry.multi]
    multi = [entry for entry in schema.categorical if entry.multi]
    age = torch.arange(events, 0, -1, dtype=torch.float32) * DAY_SECONDS
    labels = torch.ones(candidates, len(schema.tasks))
    return Batch(
        categorical={entry.name: rows_of(entry.table, candidates) for entry in single},
        bags={entry.name: rows_of(entry.table, candidates) for entry in multi},
        bag_lengths={entry.name: torch.ones(candidates, dtype=torch.int64) for entry in multi},
        content={entry.name: torch.zeros(candidates, entry.width + 1) for entry in schema.content},
        dense=torch.zeros(candidates, schema.dense_width),
        history_lengths=torch.tensor([events]),
        history={field.name: rows_of(field.table, events) for field in schema.history.fields},
        history_age=age,
        history_type=1 + torch.arange(events) % max(1, len(schema.event_types)),
        history_span=age[:1] if events else torch.zeros(1),
        surface=torch.arange(candidates) % len(schema.surfaces),
        keep_rate=torch.ones(candidates),
        label=labels,
        mask=labels,
        weight=labels,
        impression_id=torch.arange(candidates),
        history_row=torch.zeros(candidates, dtype=torch.int64),
    )


def kept_bytes(model: torch.nn.Module, batch: Batch | Tensor) -> int:
    """Bytes that a forward pass keeps for the backward pass, weights left out, shared storage once."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    def back(tensor: Tensor) -> Tensor:
        return tensor

    with saved_tensors_hooks(keep, back):
        out = model(batch)
    # While the output lives, so does what was kept: no address stood for two storages.
    assert isinstance(out, Tensor)
    return sum(kept.values())


def text(recipe: Recipe, size: Size) -> str:
    """Settings and size for a terminal."""
    settings = recipe.to_dict()
    model = settings.pop("model")
    lines = [f"{key}: {_plain(value)}" for key, value in settings.items()]
    lines += ["model:", *(f"  {key}: {_plain(value)}" for key, value in model.items())]
    lines += [
        "parameters:",
        f"  dense: {size.dense:,}",
        f"  tables: {size.tables:,} ({size.rows:,} rows)",
        f"FLOPs an example, at {size.candidates} candidates a request and {size.events} events:",
        f"  forward: {size.forward:,.0f}",
        f"  training: {size.training:,.0f}",
        "memory in training, the whole batch on one process, float32 (weights, optimizer, gradients from parameter",
        f"counts; activations from what one request keeps, times {size.requests:,.1f} requests; buffers come on top):",
        *(f"  {name}: {value / 2**20:,.1f} MiB" for name, value in size.memory.items()),
        f"  together: {sum(size.memory.values()) / 2**20:,.1f} MiB",
    ]
    return "\n".join(lines)


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
