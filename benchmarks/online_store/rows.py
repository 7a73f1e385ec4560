"""Random rows of every view of a world, each id once, none of them missing: what a read has to carry at most."""

from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from features.store.definitions import view_specs

if TYPE_CHECKING:
    from features.worlds.schema import World

WIDTH = 16
"""Of a content embedding."""
MULTI = 3
"""Ids of a multi-valued attribute."""


def random_rows(world: "World", sizes: dict[str, int], stamp: datetime, seed: int) -> dict[str, pa.Table]:
    """View -> rows as `features.store.online.write_rows` takes them.

    Args:
        world: names the views.
        sizes: join key -> how many ids; they are 0 ... size - 1.
        stamp: event time of all rows, and when they were available.
        seed: of the values.
    """
    generator, found = np.random.default_rng(seed), {}
    for name, spec in view_specs(world).items():
        count = sizes[spec.key]
        stamps = pa.array([stamp] * count, pa.timestamp("us", "UTC"))
        columns = {spec.key: pa.array(np.arange(count)), "event_timestamp": stamps, "available_ts": stamps}
        length = world.history.recent_length if spec.is_history else MULTI
        for column, kind in spec.features.items():
            columns[column] = _values(generator, kind, count, length)
        found[name] = pa.table(columns)
    return found


def _values(generator: np.random.Generator, kind: str, count: int, length: int) -> pa.Array:
    if kind == "double":
        return pa.array(generator.random(count))
    if kind == "bigint":
        return pa.array(generator.integers(2**62, size=count))
    if kind == "array<float>":
        return pa.array(list(generator.random((count, WIDTH), dtype=np.float32)))
    return pa.array(list(generator.integers(2**62, size=(count, length))))
