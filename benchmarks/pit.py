"""Is any of 10^6 random requests told something that it could not know, and what does a slice of a history cost?

A random log goes through the product: tables, statistics, feature store, history store. Every request's statistics as
its example holds them and as Feast joins them, and its slice as the reader cuts it, are compared with a recount from
raw events; a request of which anything differs is a violation. Two calendars, one with a day of 25 hours and one with
23. Controls join "at or before", by event time alone, and must be caught. The history store's bytes an event stand
beside what it would take to copy each request's sequence into its example.
"""

import math
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.oracle.log import LAG_US, TYPES, ZONE, Log, Sizes, draw
from benchmarks.oracle.recount import Histories, Statistics
from benchmarks.result import Bar, Result
from benchmarks.timing import fastest
from features.days import micros_of
from features.schema_of import ad_statistics, schema_of, user_statistics
from features.transform.hashing import rows_of, table_salt
from features.transform.histories import HistoryCut, HistoryStore, slice_histories
from features.worlds import World, load_world
from training.mapped_histories import MappedHistories, histories
from training.parquet import read_histories
from training.plan import DayFiles

if TYPE_CHECKING:
    from features.tables import Tables

CALENDARS = ("2024-10-28", "2024-03-04")
"""First days: on the seventh day clocks go back, and forward."""
QUICK = Sizes(users=200, ads=40, days=10, events=20_000, heavy=3_000, requests=20_000)
FULL = Sizes(users=3_000, ads=500, days=40, events=300_000, heavy=30_000, requests=500_000)
WINDOWS = (1, 7, 28)
LENGTH = 50
LENGTHS = (50, 1_000, 10_000)
CELLS = 40_000_000
"""Pairs of a request and an event that are looked at together."""
CONTROLLED = 50_000
"""Requests of which the control's slices are judged."""
TOLERANCE = 2e-6
"""Of ages in days, which the product rounds to six digits; all else is equal to the last bit, or to 1e-11 (shares)."""


@dataclass(frozen=True)
class Product:
    """What the product made of a log.

    Attributes:
        world: its windows, lag and calendar.
        store: the reader's.
        joined: who joined, `examples` or `feast`; feature -> float64 [R].
        seconds: to sort all days' histories, to carry a store on by a day, and to open one that is there.
    """

    world: World
    store: HistoryStore
    joined: dict[str, dict[str, np.ndarray]]
    seconds: dict[str, float]


def world_of(log: Log) -> World:
    """`tiny` on the log's days, with tables so large that rows tell ids apart."""
    tiny = load_world("tiny")
    tables = dict(tiny.tables) | {"ad": 1 << 30, "brand": 1 << 30}
    statistics = tiny.statistics.model_copy(update={"windows": WINDOWS})
    days = {"first_day": log.days[0], "last_day": log.days[-1], "closed_days": (), "demo": None}
    assert (tiny.timezone, micros_of(tiny.statistics.lag)) == (ZONE, LAG_US)
    return tiny.model_copy(update={**days, "tables": tables, "statistics": statistics})


def built(log: Log, root: Path) -> Product:
    """Publish the log's events and all that is made of them, and join."""
    from features.history import user_history
    from features.home import Home
    from features.sources.canonical import empty
    from features.spark import session
    from features.stats import ad_stats, user_stats
    from features.store.repo import apply
    from features.tables import Tables
    from training.chain import day_files

    world, spark = world_of(log), session()
    root.mkdir(parents=True)
    log.write_events(root / "events.parquet")
    tables = Tables(spark, world, Home(root / world.name))
    tables.publish("events", spark.read.parquet(str(root / "events.parquet")), log.days)
    for name in ("users", "ads"):
        tables.publish(name, empty(spark, name, world), log.days)
    for name, compute in {"user_stats": user_stats, "ad_stats": ad_stats, "user_history": user_history}.items():
        tables.publish(name, compute(spark, world, log.days, tables), log.days)
    apply(world, tables.home)
    store, seconds = _stored(day_files(tables, "user_history", log.days), world)
    return Product(world, store, _joined(log, world, tables, root), seconds)


def _stored(files: dict[str, DayFiles], world: World) -> tuple[HistoryStore, dict[str, float]]:
    """The reader's store, built as by a run a day, of which the last one is timed."""
    fields = [field.name for field in world.history.fields]
    histories(dict(list(files.items())[:-1]), fields)
    seconds = {}
    for name, call in {"sort": read_histories, "append": histories, "open": histories}.items():
        started = time.perf_counter()
        store = call(files, fields)
        seconds[name] = time.perf_counter() - started
    return store, seconds


def _joined(log: Log, world: World, tables: "Tables", root: Path) -> dict[str, dict[str, np.ndarray]]:
    from features.examples import features_of
    from features.sources.canonical import conform
    from features.store.historical import historical_features

    log.write_requests(root / "requests.parquet")
    asked = conform(tables.spark.read.parquet(str(root / "requests.parquet")), "impressions", world)
    entities = asked.select("impression_id", "user_id", "ad_id", asked["request_ts"].alias("event_timestamp"))
    declared = {"user_stats": user_statistics(world), "ad_stats": ad_statistics(world)}
    references = [f"{view}:{feature.name}" for view, features in declared.items() for feature in features]
    frames = {
        "examples": features_of(tables.spark, world, log.days, tables, asked),
        "feast": historical_features(tables.spark, world, tables.home, tables, entities, references),
    }
    names = [reference.split(":")[1] for reference in references]
    found = {}
    for who, frame in frames.items():
        frame.select("impression_id", *names).write.parquet(str(root / who))
        found[who] = _in_order(pq.read_table(root / who), len(log.requests["us"]), names)
    return found


def _in_order(table: pa.Table, count: int, names: list[str]) -> dict[str, np.ndarray]:
    table = table.sort_by("impression_id")
    if not np.array_equal(table["impression_id"].to_numpy(), np.arange(count)):
        raise AssertionError(f"a join made {len(table)} rows of {count} requests, or other ones")
    return {name: table[name].to_numpy().astype(float) for name in names}


def differing(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> np.ndarray:
    """Requests, bool [R], of which any feature differs."""
    assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
    wrong = np.zeros(len(next(iter(found.values()))), dtype=bool)
    for name, values in expected.items():
        near = TOLERANCE if name.endswith(("_last", "_days")) else 1e-11 if "share" in name else 0.0
        absent = np.isnan(values)
        wrong |= absent != np.isnan(found[name])
        wrong |= ~absent & (np.abs(found[name] - values) > near)
    return wrong


def wrong_slices(log: Log, product: Product, requests: np.ndarray, *, inclusive: bool = False) -> np.ndarray:
    """Requests, bool [R], whose slice is not what the recount says.

    Args:
        log: the raw events.
        product: with the store that is sliced.
        requests: which are looked at.
        inclusive: slice at or before the request, whenever an event arrived: the control.
    """
    truth, wrong = Histories(log), np.zeros(len(log.requests["us"]), dtype=bool)
    users = log.requests["user"][requests]
    order = np.argsort(users, kind="stable")
    cuts = np.flatnonzero(np.diff(users[order])) + 1
    for mine in np.split(requests[order], cuts):
        events = truth.of(int(log.requests["user"][mine[0]]))
        for part in np.array_split(mine, math.ceil(len(mine) * max(len(events), 1) / CELLS)):
            wrong[part] = _wrong_part(log, product, truth, part, events, inclusive)
    return wrong


def _wrong_part(
    log: Log, product: Product, truth: Histories, part: np.ndarray, events: np.ndarray, inclusive: bool
) -> np.ndarray:
    schema = schema_of(product.world)
    at, user = log.requests["us"][part], log.requests["user"][part]
    day = date.fromisoformat(log.days[0]).toordinal() + log.request_day[part]
    asked = (day + len(log.days), at + 1) if inclusive else (day, at)
    got = slice_histories(schema, product.store, (user, user < 0), *asked, cut=HistoryCut(LENGTH))
    first = np.empty(len(got.lengths), dtype=np.int64)
    first[got.row] = np.arange(len(part))
    row, event = truth.last(events, part[first], LENGTH)
    bad = np.bincount(row, minlength=len(first)) != got.lengths
    owner = np.repeat(np.arange(len(first)), got.lengths)
    own, mine = ~bad[owner], ~bad[row]
    expected = _columns(log, schema, event[mine], at[first][row[mine]])
    found = {"age": got.age_us - inclusive, "type": got.type, **got.fields}
    for name, values in expected.items():
        bad[owner[own][found[name][own] != values]] = True
    result: np.ndarray = bad[got.row]
    return result


def _columns(log: Log, schema: Any, event: np.ndarray, at: np.ndarray) -> dict[str, np.ndarray]:
    own = log.events
    brand = own["brand"][event]
    some = np.zeros(len(event), dtype=bool)
    return {
        "age": at - own["us"][event],
        "type": np.array([schema.event_types.index(name) + 1 for name in TYPES])[own["type"][event]],
        "ad_id": rows_of(own["ad"][event], some, schema.tables["ad"], table_salt("ad")),
        "brand": rows_of(brand, brand < 0, schema.tables["brand"], table_salt("brand")),
    }


def costs(log: Log, product: Product) -> tuple[dict[str, float], dict[str, float]]:
    """Slices a second by length and stored bytes an event; and what copies of the sequences would take.

    A copy is the sequence's arrays as `user_history` holds them, 8 bytes a number. The shortest length is asked for
    all kinds of users, the longer ones for the most active one, who alone has as many events.
    """
    store, schema = product.store, schema_of(product.world)
    assert isinstance(store, MappedHistories), "the store is not mapped"
    size = sum(path.stat().st_size for path in store.folder.glob("*.npy"))
    figures, controls = {"bytes_per_event": size / len(store.event_us)}, {}
    day = date.fromisoformat(log.days[0]).toordinal() + log.request_day
    user, at = log.requests["user"], log.requests["us"]
    heavy = np.flatnonzero(user == 0)[:500]
    for length in LENGTHS:
        asked = np.arange(min(50_000, len(day))) if length == LENGTHS[0] else heavy
        args = (schema, store, (user[asked], user[asked] < 0), day[asked], at[asked], HistoryCut(length))
        made = slice_histories(*args)
        seconds = fastest({"slice": partial(slice_histories, *args)}, turns=3)["slice"]
        events = made.lengths.sum() / len(made.lengths)
        figures[f"slices_per_s_{length}"] = len(made.lengths) / seconds
        figures[f"events_per_slice_{length}"] = events
        controls[f"bytes_of_a_copy_{length}"] = events * 8 * (2 + len(store.fields))
    controls["copies_over_store"] = len(day) * controls[f"bytes_of_a_copy_{LENGTHS[0]}"] / size
    return figures | {f"{name}_s": seconds for name, seconds in product.seconds.items()}, controls


def judged(log: Log, product: Product) -> dict[str, float]:
    """Requests that were told something else than the recount says, and what the controls would have told."""
    ttl = micros_of(product.world.stats_ttl)
    truth = [Statistics(log, kind, WINDOWS) for kind in ("user", "ad")]
    expected = truth[0].as_of(ttl) | truth[1].as_of(ttl)
    careless = truth[0].at_or_before(ttl) | truth[1].at_or_before(ttl)
    everyone = np.arange(len(log.requests["us"]))
    statistics = {who: differing(joined, expected) for who, joined in product.joined.items()}
    slices = wrong_slices(log, product, everyone)
    some = everyone[:CONTROLLED]
    control = wrong_slices(log, product, some, inclusive=True)[some]
    return {
        "requests": len(everyone),
        "violations": int((statistics["examples"] | statistics["feast"] | slices).sum()),
        **{f"wrong_statistics_of_{who}": int(wrong.sum()) for who, wrong in statistics.items()},
        "wrong_histories": int(slices.sum()),
        "share_of_wrong_statistics_at_or_before": float(differing(careless, expected).mean()),
        "share_of_wrong_histories_at_or_before": float(control.mean()),
    }


def run(quick: bool) -> Result:
    """Compare all requests, then time.

    Args:
        quick: one calendar, 2 % of the requests.
    """
    sizes, calendars = (QUICK, CALENDARS[:1]) if quick else (FULL, CALENDARS)
    found: list[dict[str, float]] = []
    for number, first in enumerate(calendars):
        log = draw(sizes, first, seed=7 + number)
        with tempfile.TemporaryDirectory(prefix="pit-") as folder:
            product = built(log, Path(folder) / "home")
            found.append(judged(log, product))
            figures, controls = costs(log, product)
    for name in found[0]:
        numbers = [one[name] for one in found]
        if "at_or_before" in name:
            controls[name] = min(numbers)
        else:
            figures[name] = sum(numbers)
    figures["caught"] = min(value for name, value in controls.items() if "at_or_before" in name)
    bars: dict[str, Bar] = {"violations": ("<=", 0.0), "caught": (">=", 0.01)}
    if not quick:
        bars["requests"] = (">=", 1e6)
    notes = {"sizes": asdict(sizes), "calendars": calendars, "length": LENGTH}
    return Result(figures, controls, bars=bars, notes=notes)
