"""What one generation of the foundation model left behind for a request: the user's memory and vectors of the ads.

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
        memory: of the request's user alone.
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
    day, remembered_us, impression_id, vectors = cache.memory(generation, asked.user_id)
    memory = MemoryStore.empty(width)
    if asked.user_id is not None and len(day):
        user_id = np.full(len(day), asked.user_id, dtype=np.int64)
        memory = MemoryStore.from_arrays(user_id, day, remembered_us, impression_id, vectors)
    precomputed = Precomputed.none(len(asked.ad_ids), width)
    found = cache.lookup(generation, asked.surface, asked.user_id, asked.ad_ids, request_us)
    for place, answer in enumerate(found):
        if answer.vector is not None:
            precomputed.vector[place] = answer.vector
            precomputed.source[place] = SOURCES.index(answer.source)
    return Knowledge(generation, memory, precomputed)
