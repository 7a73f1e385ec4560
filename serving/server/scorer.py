"""Scoring a request: stored features, memory and vectors in, probabilities out.

The foundation model has no part in it: what it knew was computed before, and is looked up.
"""

import math
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from features import clock
from features.days import day_end, day_of, micros, micros_of
from features.errors import GemlineError
from features.store.lookup import OnlineStore
from features.store.repo import require_applied
from serving.package import RawInputs, load_package
from serving.server.answers import KNOWN, Answer, ScoredAd
from serving.server.columns import Rows, rows_of_request
from serving.server.knowledge import Knowledge, knowledge_of
from serving.server.live import LivePackages, Snapshot
from serving.server.metrics import Metrics
from serving.server.requests import ScoreRequest, instant_of, resolved
from serving.solaris.cache import VectorCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from features.home import Home
    from features.worlds.schema import World
    from serving.package import ServedModel
    from serving.server.live import Load
    from serving.server.requests import Candidate


class Scorer:
    """Answers requests of one world from any thread."""

    def __init__(self, world: "World", home: "Home", load: "Load" = load_package) -> None:
        """Packages and features are opened by the first request, or by `warm_up`.

        Args:
            world: whose verticals are served.
            home: where it is; only the cache file is made when it is not there.
            load: reads a package folder and checks it against a digest.
        """
        self.world = world
        self.home = home
        self.metrics = Metrics()
        verticals = [vertical.name for vertical in world.verticals]
        self.live = LivePackages(world.name, home.releases, verticals, load)
        self.life_us = micros_of(world.precompute.life)
        self.cache = VectorCache(home.root / "cache" / "vectors.db", self.life_us)
        self._online: OnlineStore | None = None
        self._opening = threading.Lock()

    def score(self, request: ScoreRequest) -> Answer:
        """Score the ads of a request.

        Raises:
            NotServed: the vertical is unknown or has no live release.
            RequestError: the request asks for what does not exist, or for a time that it may not name.
            GemlineError: the world has no published day, or its feature store is stale.
        """
        snapshot = self.live.snapshot(request.vertical)
        asked = resolved(request, self.world, self.world.vertical(request.vertical).surfaces)
        at = self._instant(request.request_ts)
        found = self._features().features(asked.users, asked.ads, at)
        rows = rows_of_request(self.world, asked, at, found)
        width = int(snapshot.model.manifest["width"])
        known = knowledge_of(self.cache, snapshot.generation, width, asked, micros(at))
        scored = self._scored(snapshot, rows, known)
        answer = Answer(
            world=self.world.name,
            vertical=request.vertical,
            surface=asked.surface,
            digest=snapshot.digest,
            model_digest=snapshot.model_digest,
            generation=snapshot.generation,
            request_ts=at.isoformat(),
            scores=_ads(request.ads, rows, known, scored, snapshot.model),
            missing=found.missing,
        )
        self.metrics.observe(answer)
        return answer

    def warm_up(self) -> None:
        """Load now what the first request would wait for; what is not ready yet is left to it."""
        self.live.states()
        with suppress(GemlineError):
            self._features()

    def require_features(self) -> None:
        """Refuse a feature store that cannot be asked.

        Raises:
            GemlineError: it was not applied, or from other declarations.
        """
        self._features()
        require_applied(self.world, self.home)

    def _instant(self, given: datetime | None) -> datetime:
        now = clock.now(self.world, self.home)
        end = day_end(day_of(now, self.world.timezone), self.world.timezone)
        return instant_of(given, now, end, replay=self.world.clock == "replay").astimezone(UTC)

    def _features(self) -> OnlineStore:
        """The online store, opened once it has been applied."""
        with self._opening:
            if self._online is None:
                self._online = OnlineStore(self.world, self.home)
            return self._online

    def _scored(self, snapshot: Snapshot, rows: Rows, known: Knowledge) -> "np.ndarray":
        """Probabilities [B, T] of the impressions, by the package, for rows and knowledge of its own generation."""
        if known.generation != snapshot.generation:
            self.metrics.mixed.inc()
            raise GemlineError(
                f"vectors of {known.generation} for a package of {snapshot.generation}; ask again, and report this"
            )
        raw = RawInputs(rows.columns, rows.day, rows.histories, known.memory, known.precomputed)
        batch, transfer = snapshot.model.inputs(raw)
        self.metrics.observe_untrained(snapshot.model.manifest["vertical"], snapshot.model.untrained(batch))
        return snapshot.model.unconditional(snapshot.model.score(batch, transfer), batch)


def _ads(
    asked: "Sequence[Candidate]", rows: Rows, known: Knowledge, scored: "np.ndarray", model: "ServedModel"
) -> list[ScoredAd]:
    """The answer's rows; what is not finite becomes null."""
    tasks = model.schema.task_names
    answers = []
    sides = zip(rows.user_known.tolist(), rows.ad_known.tolist(), strict=True)
    for ad, side, source, numbers in zip(asked, sides, known.sources, scored.tolist(), strict=True):
        given = dict(zip(tasks, numbers, strict=True))
        replaced = [task for task, number in given.items() if not math.isfinite(number)]
        answers.append(
            ScoredAd(
                ad_id=ad.ad_id,
                scores=given | dict.fromkeys(replaced),
                known=KNOWN[side],
                source=source,
                replaced=replaced,
            )
        )
    return answers
