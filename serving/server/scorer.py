"""Scoring a request: stored features, memory and vectors in, probabilities out.

The foundation model has no part in it: what it knew was computed before, and is looked up.
"""

import math
import threading
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from features import clock
from features.days import day_end, day_of, micros, micros_of
from features.errors import GemlineError
from features.store.lookup import OnlineStore
from serving.package import RawInputs, load_package
from serving.server.answers import KNOWN, Answer, ScoredAd
from serving.server.columns import Rows, rows_of_request
from serving.server.knowledge import Knowledge, knowledge_of
from serving.server.live import LivePackages, Snapshot
from serving.server.metrics import Metrics
from serving.server.requests import Asked, ScoreRequest, instant_of, resolved
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
        self._cache = VectorCache(home.folder("cache") / "vectors.db", micros_of(world.precompute.life))
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
        parts = resolved(request, self.world, self.world.vertical(request.vertical).surfaces)
        at = self._instant(request.request_ts)
        scores: dict[int, ScoredAd] = {}
        missing: dict[str, Counter[str]] = {}
        for asked in parts:
            answers, faults = self._part(snapshot, request, asked, at)
            scores |= dict(zip(asked.places, answers, strict=True))
            for view, reasons in faults.items():
                missing.setdefault(view, Counter()).update(reasons)
        answer = Answer(
            world=self.world.name,
            vertical=request.vertical,
            surface=parts[0].surface,
            digest=snapshot.digest,
            model_digest=snapshot.model_digest,
            generation=snapshot.generation,
            request_ts=at.isoformat(),
            scores=[scores[place] for place in range(len(request.ads))],
            missing={view: dict(reasons) for view, reasons in missing.items()},
        )
        self.metrics.observe(answer)
        return answer

    def _part(
        self, snapshot: Snapshot, request: ScoreRequest, asked: Asked, at: datetime
    ) -> tuple[list[ScoredAd], dict[str, dict[str, int]]]:
        """Scores of one user's candidates, and what was missing of their features."""
        users = [] if asked.user_id is None else [asked.user_id]
        ads = list(dict.fromkeys(ad for ad in asked.ad_ids if ad is not None))
        found = self._features().features(users, ads, at)
        rows = rows_of_request(self.world, asked, at, found)
        width = int(snapshot.model.manifest["width"])
        known = knowledge_of(self._cache, snapshot.generation, width, asked, micros(at))
        scored = self._scored(snapshot, rows, known)
        candidates = [request.ads[place] for place in asked.places]
        return _ads(candidates, rows, known, scored, snapshot.model), found.missing

    def warm_up(self) -> None:
        """Load now what the first request would wait for; what is not ready yet is left to it."""
        self.live.states()
        with suppress(GemlineError):
            self._features()

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
        """Probabilities [B, T] of the package for rows and knowledge of its own generation."""
        if known.generation != snapshot.generation:
            self.metrics.mixed.inc()
            raise GemlineError(
                f"vectors of {known.generation} for a package of {snapshot.generation}; ask again, and report this"
            )
        raw = RawInputs(rows.columns, rows.day, rows.histories, known.memory, known.precomputed)
        return snapshot.model.score(*snapshot.model.inputs(raw))


def _ads(
    asked: "Sequence[Candidate]", rows: Rows, known: Knowledge, scored: "np.ndarray", model: "ServedModel"
) -> list[ScoredAd]:
    """The answer's rows; what is not finite becomes the package's base rate, or null when it has none."""
    tasks = model.schema.task_names
    base_rates = model.manifest.get("base_rates", {})
    answers = []
    for ad, ad_known, source, numbers in zip(asked, rows.ad_known, known.sources, scored.tolist(), strict=True):
        given = dict(zip(tasks, numbers, strict=True))
        replaced = [task for task, number in given.items() if not math.isfinite(number)]
        answers.append(
            ScoredAd(
                ad_id=ad.ad_id,
                scores=given | {task: base_rates.get(task) for task in replaced},
                known=KNOWN[rows.user_known, bool(ad_known)],
                source=source,
                replaced=replaced,
            )
        )
    return answers
