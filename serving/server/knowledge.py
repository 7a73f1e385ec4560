"""What one generation of the foundation model left behind for a request: the users' memories and vectors of the ads.

Everything is asked of the cache under one generation, which the result carries, so that the scorer can see that it is
the package's.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from features.transform.transfer import SOURCES, MemoryStore, Precomputed

if TYPE_CHECKING:
    from serving.server.requests import Asked
    from serving.solaris.cache import VectorCache


@dataclass(frozen=True)
class Knowledge:
    """Of B candidates of one request.

    Attributes:
        generation: whose vectors these are.
        memory: of the request's users alone.
        precomputed: vectors and sources [B].
    """

    generation: str
    memory: MemoryStore
    precomputed: Precomputed

    @property
    def sources(self) -> list[str]:
        """`exact`, `user` or `none` of each candidate."""
        return [SOURCES[place] for place in self.precomputed.source]


def knowledge_of(cache: "VectorCache", generation: str, width: int, asked: "Asked", request_us: int) -> Knowledge:
    """Look a request up in the cache.

    Args:
        cache: of the world.
        generation: the package's.
        width: numbers of a vector.
        asked: the request.
        request_us: its instant, UTC microseconds.
    """
    precomputed = Precomputed.none(len(asked.ad_ids), width)
    owners, memories = [], []
    for user_id, places in asked.places_of().items():
        memory = cache.memory(generation, user_id)
        if len(memory[0]):
            owners.append(np.full(len(memory[0]), user_id, dtype=np.int64))
            memories.append(memory)
        found = cache.lookup(generation, asked.surface, user_id, [asked.ad_ids[place] for place in places], request_us)
        for place, answer in zip(places, found, strict=True):
            if answer.vector is not None:
                precomputed.vector[place] = answer.vector
                precomputed.source[place] = SOURCES.index(answer.source)
    memory_store = MemoryStore.empty(width)
    if memories:
        columns = [np.concatenate(parts) for parts in zip(*memories, strict=True)]
        memory_store = MemoryStore.from_arrays(np.concatenate(owners), *columns)
    return Knowledge(generation, memory_store, precomputed)
