"""How long does it take to read the features of one user and 100 ads: Feast as it comes, and ours, on SQLite and Redis?

All stores hold the same random rows under the declarations of `complete_journey`, and every request goes to all of them
in turns, so a disturbed moment disturbs all. Controls are Feast's own two ways of asking its own stores; a ratio is of
the faster of the two. Ours does more: it refuses ids that are not exact, checks that the declarations are those of the
registry, and leaves out what is expired or not available yet. All give the same values, or the run ends.
"""

import math
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.online_store.filled import Reader, ours, plain
from benchmarks.online_store.redis_server import available, redis_server
from benchmarks.online_store.rows import random_rows
from benchmarks.result import Bar, Result
from features.worlds import load_world

if TYPE_CHECKING:
    from features.worlds.schema import World

ADS = 100
STAMP = datetime(2017, 7, 2, 4, tzinfo=UTC)
AT = STAMP + timedelta(hours=12)
QUICK = {"user_id": 200, "ad_id": 1_000}
FULL = {"user_id": 2_500, "ad_id": 20_000}
REQUESTS, WARM_UP = 2_000, 20
SEED = 7
DRAWS = 1_000
SHARES = {"p50": 50, "p99": 99}


def run(quick: bool) -> Result:
    """Fill the stores, ask, compare.

    Args:
        quick: few ids, a tenth of the requests.
    """
    world, sizes = load_world("complete_journey"), QUICK if quick else FULL
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="online-")))
        address = stack.enter_context(redis_server()) if available() else ""
        readers = {
            engine: _readers(engine, world, sizes, root, address)
            for engine in ("sqlite", *(["redis"] if address else []))
        }
        asked = list(_requests(sizes, REQUESTS // 10 if quick else REQUESTS))
        for arms in readers.values():
            require_same(arms, *asked[0])
        seconds = _timed(readers, asked)
    figures, controls, intervals = judged(seconds)
    bars: dict[str, Bar] = {name: (">=", 1.0) for name in figures if "speedup" in name}
    notes = {"world": world.name, "ads": ADS, "stored": sizes, "requests": len(asked), "engines": list(readers)}
    return Result(figures, controls, intervals, bars=bars, notes=notes)


def _readers(engine: str, world: "World", sizes: dict[str, int], root: Path, address: str) -> dict[str, Reader]:
    """Ours, and Feast's two, on one engine."""
    rows = random_rows(world, sizes, STAMP, SEED)
    if engine == "redis":
        online = {"type": "redis", "connection_string": f"{address.removeprefix('redis://')},db=1"}
    else:
        online = {"type": "sqlite", "path": str(root / "feast.db")}
    own = ours(world, root / f"{engine}-ours", rows, AT, address if engine == "redis" else "")
    return {"ours": own, **plain(world, root / f"{engine}-feast", rows, online)}


def _requests(sizes: dict[str, int], count: int) -> Iterator[tuple[int, list[int]]]:
    """One user and 100 different ads a request."""
    generator = np.random.default_rng(SEED)
    for _ in range(count):
        ads = generator.choice(sizes["ad_id"], ADS, replace=False)
        yield int(generator.integers(sizes["user_id"])), ads.tolist()


def require_same(arms: dict[str, Reader], user: int, ads: list[int]) -> None:
    """End the run when an arm answers a request otherwise than ours.

    Raises:
        AssertionError: names arm and feature.
    """
    found = arms["ours"](user, ads)
    rows = {**{name: found.users[name].tolist() * len(ads) for name in found.users}, **found.ads.to_dict("list")}
    users, of_ads = arms["feast_apart"](user, ads)
    apart = {**{name: values * len(ads) for name, values in users.items()}, **of_ads}
    for arm, answer in (("feast", arms["feast"](user, ads)), ("feast_apart", apart)):
        for name, values in rows.items():
            assert answer[name] == values, f"{arm} answers {name} otherwise than ours"


def _timed(readers: dict[str, dict[str, Reader]], asked: list[tuple[int, list[int]]]) -> dict[str, dict[str, Any]]:
    """Engine -> arm -> seconds of each request; which arm comes first changes from request to request."""
    seconds = {engine: {arm: np.empty(len(asked)) for arm in arms} for engine, arms in readers.items()}
    calls = [(engine, arm, call) for engine, arms in readers.items() for arm, call in arms.items()]
    for user, ads in asked[:WARM_UP]:
        for *_, call in calls:
            call(user, ads)
    for number, request in enumerate(asked):
        turn = number % len(calls)
        for engine, arm, call in calls[turn:] + calls[:turn]:
            started = time.perf_counter()
            call(*request)
            seconds[engine][arm][number] = time.perf_counter() - started
    return seconds


def judged(
    seconds: dict[str, dict[str, np.ndarray]],
) -> tuple[dict[str, float], dict[str, float], dict[str, tuple[float, float]]]:
    """Figures, controls and intervals: milliseconds of each arm, and how often ours fits into the faster control.

    Intervals resample requests, the same ones for both sides.
    """
    figures, controls, intervals = {}, {}, {}
    generator = np.random.default_rng(SEED)
    for engine, arms in seconds.items():
        own, others = arms["ours"], {arm: taken for arm, taken in arms.items() if arm != "ours"}
        drawn = generator.integers(len(own), size=(DRAWS, len(own)))
        for name, share in SHARES.items():
            figures[f"{engine}_{name}_ms"] = 1e3 * float(np.percentile(own, share))
            rival, best = "", math.inf
            for arm, taken in others.items():
                controls[f"{engine}_{arm}_{name}_ms"] = found = 1e3 * float(np.percentile(taken, share))
                rival, best = (arm, found) if found < best else (rival, best)
            ratios = np.percentile(others[rival][drawn], share, axis=1) / np.percentile(own[drawn], share, axis=1)
            figures[f"{engine}_{name}_speedup"] = best / figures[f"{engine}_{name}_ms"]
            low, high = np.percentile(ratios, (2.5, 97.5))
            intervals[f"{engine}_{name}_speedup"] = float(low), float(high)
    return figures, controls, intervals
