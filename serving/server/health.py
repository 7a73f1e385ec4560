"""Whether the service can answer, and with all that it should have: packages, features, memories and vectors.

A package that answers without vectors is well by itself and answers worse, so `degraded` is no `ok`.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from features import clock
from features.days import micros
from features.errors import GemlineError

if TYPE_CHECKING:
    from serving.server.live import Snapshot
    from serving.server.scorer import Scorer


def health_of(scorer: "Scorer") -> dict[str, Any]:
    """What `/health` says.

    Returns:
        `status` (`ok`, `degraded` or `down`), `verticals` by name, `vectors` (the newest run of each live generation)
        and `faults`, a sentence each, by what they are about.
    """
    states = scorer.live.states()
    live = {name: snapshot for name, (snapshot, _) in states.items() if snapshot is not None}
    faults = {name: fault for name, (_, fault) in states.items() if fault}
    features = _fault_of_features(scorer)
    runs, vectors = _vectors(scorer, {snapshot.generation for snapshot in live.values()})
    faults |= vectors | ({"features": features} if features else {})
    down = not live or bool(features)
    return {
        "world": scorer.world.name,
        "synthetic": scorer.world.synthetic,
        "status": "down" if down else "degraded" if faults else "ok",
        "verticals": {name: _shown(live[name]) if name in live else None for name in states},
        "vectors": runs,
        "faults": faults,
    }


def _shown(snapshot: "Snapshot") -> dict[str, str]:
    return {
        "ds": snapshot.release.ds,
        "digest": snapshot.digest,
        "model_digest": snapshot.model_digest,
        "generation": snapshot.generation,
    }


def _fault_of_features(scorer: "Scorer") -> str:
    """Why no request can be answered, empty when all can."""
    try:
        scorer.require_features()
        clock.now(scorer.world, scorer.home)
    except GemlineError as error:
        return str(error)
    return ""


def _vectors(scorer: "Scorer", generations: set[str]) -> tuple[dict[str, str | None], dict[str, str]]:
    """The newest run of each generation, and the faults of those that have none that holds."""
    try:
        held, now = scorer.cache.generations(), micros(clock.now(scorer.world, scorer.home))
    except GemlineError as error:
        return {}, {"vectors": str(error)}
    runs: dict[str, str | None] = {}
    faults = {}
    for name in sorted(generations):
        run_us = held.get(name)
        runs[name] = None if run_us is None else datetime.fromtimestamp(run_us / 1e6, UTC).isoformat()
        mend = f"materialize {scorer.world.name}/fm_outputs and {scorer.world.name}/solaris_vectors of the newest day"
        if name not in held:
            faults[f"vectors of {name}"] = f"the cache holds neither memories nor vectors; {mend}"
        elif run_us is None:
            faults[f"vectors of {name}"] = f"the cache holds no run of vectors; {mend}"
        elif now >= run_us + scorer.life_us:
            faults[f"vectors of {name}"] = f"the newest run, of {runs[name]}, has expired; {mend}"
    return runs, faults
