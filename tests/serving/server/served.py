"""A served world for tests: `tiny` with a real feature store and a real cache, and a small model that reads everything.

The newest day is 2024-03-10. User 1 and ads 10, 11 are known; ad 10 has an exact vector for user 1, ad 11 has not.
"""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from features import clock
from features.days import day_end, micros
from features.home import Home
from features.schema_of import schema_of
from features.store.definitions import view_specs
from features.store.repo import apply, feature_store
from features.transform.batch import Batch
from features.transform.hashing import string_id
from features.transform.schema import FeatureSchema
from features.transform.transfer import Transfer
from features.worlds import World, load_world
from serving import releases
from serving.package import ServedModel
from serving.server.scorer import Scorer
from serving.solaris.cache import VectorCache

NEWEST = "2024-03-10"
WORLD = load_world("tiny")
END = day_end(NEWEST, WORLD.timezone)
NOW = END + timedelta(hours=6, microseconds=1)
WIDTH, MEMORY = WORLD.transfer.width, WORLD.transfer.memory_length
BIG = 2**53 + 1
"""A user that floating point would take for its neighbour."""
FEED = "feed_click"


@dataclass
class Model:
    """Stands in for `serving.package.ServedModel`: a smooth function of every input, row by row."""

    manifest: dict[str, Any]
    schema: FeatureSchema
    seen: list[tuple[Batch, Transfer]] = field(default_factory=list)
    inputs = ServedModel.inputs
    parents = ServedModel.parents
    unconditional = ServedModel.unconditional

    def untrained(self, batch: Batch) -> dict[str, int]:
        """As if training had met every hour and no ad."""
        return {"ad_id": len(batch), "hour": 0}

    def score(self, batch: Batch, transfer: Transfer) -> np.ndarray:
        self.seen.append((batch, transfer))
        history = sums(torch.sin(batch.history_age / 3600) + batch.history["ad_id"] / 256, batch.history_lengths)
        memory = sums(transfer.memory.sum(1) + transfer.memory_age / 1e6, transfer.memory_lengths)
        total = sum((rows.double() / 256 for rows in batch.categorical.values()), batch.dense.double().sum(1) / 50)
        total = total + history[batch.rows_of_history] / 10 + memory[transfer.memory_row] / 10
        total = total + transfer.vector.double().sum(1) + transfer.source * 0.3 - 3
        shift = string_id(self.manifest["digest"]) % 1000 / 1000
        tasks = torch.arange(len(self.schema.tasks)).double()
        return torch.sigmoid(total[:, None] + shift - tasks).numpy()


def sums(values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    owner = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    return torch.zeros(len(lengths), dtype=torch.double).index_add(0, owner, values.double())


def load(folder: Path, digest: str) -> Model:
    """Reads what `release` wrote."""
    manifest = json.loads((folder / "manifest.json").read_text())
    if manifest.get("broken"):
        raise releases.ReleaseError(f"package {digest} is broken")
    vertical = WORLD.vertical(manifest["vertical"])
    return Model(manifest, schema_of(WORLD, 10).part(vertical.surfaces, vertical.tasks))


def release(home: Home, ds: str, digest: str, generation: str, vertical: str = FEED, **more: Any) -> None:
    """Write a package and make it live."""
    folder = home.folder("packages") / vertical / ds
    folder.mkdir(parents=True)
    manifest = {
        "digest": digest,
        "model_digest": f"model-of-{digest}",
        "world": WORLD.name,
        "vertical": vertical,
        "ds": ds,
        "generation": generation,
        "width": WIDTH,
        "memory_length": MEMORY,
        "history_length": 10,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest | more))
    path = folder.relative_to(home.root).as_posix()
    releases.promote(home.releases, vertical, releases.Release(ds, digest, path))


def put(home: Home, view: str, key: int, stamp: datetime, values: dict[str, Any]) -> None:
    """Push one row; features that are not named are null, or empty lists."""
    spec = view_specs(WORLD)[view]
    types = {
        "double": pa.float64(),
        "bigint": pa.int64(),
        "array<bigint>": pa.list_(pa.int64()),
        "array<float>": pa.list_(pa.float32()),
    }
    columns = {name: pa.array([values.get(name)], types[kind]) for name, kind in spec.features.items()}
    table = pa.table({spec.key: [key], "event_timestamp": [stamp], "available_ts": [stamp], **columns})
    # the module imports Spark, which is not started
    from features.store.online import write_rows

    write_rows(feature_store(WORLD, home), spec, table)


def filled(home: Home) -> Home:
    """A world after its newest day: features online, memory and vectors of generation `gen-a`."""
    apply(WORLD, home)
    for user in (1, BIG):
        put(home, "user_stats", user, END, dict.fromkeys(view_specs(WORLD)["user_stats"].features, 3.0))
        put(home, "user_attributes", user, END - timedelta(days=1), {"country": 2**61 + user % 7, "age_band": 2})
    put(home, "user_recent", 1, END, recent([(5, "click", 10, 5), (9, "buy", 11, None)]))
    for ad in (10, 11):
        put(home, "ad_stats", ad, END, dict.fromkeys(view_specs(WORLD)["ad_stats"].features, ad / 10))
        put(home, "ad_attributes", ad, END - timedelta(days=1), {"brand": 5, "topic": ad})
    clock.advance(home, NEWEST)
    remember(home, "gen-a", 0.1)
    return home


def recent(events: list[tuple[int, str, int, int | None]]) -> dict[str, Any]:
    """Arrays of (hours before the day's end, type, ad, brand), oldest first."""
    events = sorted(events, reverse=True)
    return {
        "event_us": [micros(END - timedelta(hours=hours)) for hours, *_ in events],
        "event_type": [string_id(kind) for _, kind, *_ in events],
        "ad_id": [ad for *_, ad, _ in events],
        "brand": [brand for *_, brand in events],
    }


def remember(home: Home, generation: str, level: float) -> None:
    """Memory of user 1 and a run of vectors, all numbers at one level."""
    cache = VectorCache(home.folder("cache") / "vectors.db", 48 * 3_600_000_000)
    vector = np.full(WIDTH, level, dtype=np.float32)
    remembered = [(1, NEWEST, micros(END) - hours * 3_600_000_000, hours, vector) for hours in (1, 20)]
    cache.remember(generation, remembered, MEMORY)
    cache.publish_run(generation, micros(NOW) - 1, [("feed", 1, 10, vector), ("feed", 1, None, vector / 2)])


def scorer(home: Home) -> Scorer:
    return Scorer(WORLD, home, load)  # type: ignore[arg-type]


def world_with(**changes: Any) -> World:
    return WORLD.model_copy(update=changes)
