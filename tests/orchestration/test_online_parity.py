"""Sampled requests are answered with what training reads for the same instants: features, history and memory.

Requests after the newest published day, on SQLite and on a real Redis: of users and ads of the log, two of whose ids a
double cannot tell apart, of ids that nobody knows and of none; on the next day and up to three later, when statistics
have expired (B12).
"""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from features import clock
from features.days import day_of, micros
from features.schema_of import schema_of
from features.sources.tiny.generate import ADS, USERS
from features.store.historical import historical_features
from features.store.lookup import OnlineFeatures, OnlineStore
from features.store.online import materialize
from features.store.repo import apply
from features.store.versions import current, features_by_service
from features.transform.histories import slice_histories
from features.transform.transfer import Precomputed, build_transfer
from features.worlds import load_world
from orchestration.filling import cache_of
from orchestration.resources import WorldResource
from serving.server.columns import Rows, rows_of_request
from serving.server.knowledge import knowledge_of
from serving.server.requests import Asked, resolved, validated
from training.chain import day_files
from training.loopfm.generation import manifests, reference
from training.parquet import read_histories
from training.plan import TransferPlan
from training.verticals.reader import Lessons

# a first test builds all stages before its own
pytestmark = [pytest.mark.assets, pytest.mark.timeout(600)]
GEMLINE = WorldResource(world_name="tiny")
WORLD = load_world("tiny")
REQUESTS = 300
UNKNOWN = 2**62 + 3


@dataclass(frozen=True)
class Request:
    """A user and an ad, either of which may be missing, at an instant."""

    user: int | None
    ad: int | None
    at: datetime

    @property
    def asked(self) -> Asked:
        given = {"vertical": "feed_click", "user_id": self.user, "ads": [{"ad_id": self.ad}]}
        return resolved(validated(given), WORLD, ("feed",))

    @property
    def day(self) -> np.ndarray:
        return np.array([date.fromisoformat(day_of(self.at, WORLD.timezone)).toordinal()])


def sampled(now: datetime) -> list[Request]:
    """Requests from the world's now on."""
    generator = np.random.default_rng(7)
    users, ads = [*USERS, UNKNOWN, None], [*ADS, UNKNOWN, None]
    found = []
    for number in range(REQUESTS):
        hours = generator.uniform(0, 24 if number % 3 else 72)
        user, ad = users[generator.integers(len(users))], ads[generator.integers(len(ads))]
        found.append(Request(user, ad, now + timedelta(seconds=int(hours * 3600))))
    # rare in a sample of this size
    return [*found, *(Request(user, ADS[0], now) for user in (*USERS[-2:], UNKNOWN, None))]


def online(requests: list[Request]) -> list[OnlineFeatures]:
    """What the store of the chosen engine knows, filled with all days."""
    home, tables = GEMLINE.home, GEMLINE.tables()
    apply(WORLD, home)
    materialize(WORLD, home, tables, list(tables.readable_days("user_stats")))
    store = OnlineStore(WORLD, home)
    return [store.features(request.asked.users, request.asked.ads, request.at) for request in requests]


def plain(value: Any) -> Any:
    """A number, a list, or None."""
    if value is None or isinstance(value, list):
        return value
    return None if pd.isna(value) else value


def test_features_and_histories_are_those_of_training(engine: str, served: Path) -> None:
    requests = sampled(clock.now(WORLD, GEMLINE.home))
    found = online(requests)
    _same_features(requests, found)
    _same_histories(requests, found)


def _same_features(requests: list[Request], found: list[OnlineFeatures]) -> None:
    tables = GEMLINE.tables()
    asked = pd.DataFrame({"row": range(len(requests)), "event_timestamp": [request.at for request in requests]})
    # never through a column of floats
    asked["user_id"] = pd.array([request.user for request in requests], dtype="Int64")
    asked["ad_id"] = pd.array([request.ad for request in requests], dtype="Int64")
    joined = historical_features(tables.spark, WORLD, GEMLINE.home, tables, asked)
    offline = {row["row"]: row.asDict() for row in joined.collect()}
    assert len(offline) == len(requests)
    pairs = features_by_service(WORLD, GEMLINE.home, current(WORLD, GEMLINE.home).service)
    known = dict.fromkeys((name for _, name in pairs), 0)
    for number, (request, answer) in enumerate(zip(requests, found, strict=True)):
        for spec, name in pairs:
            frame, key = (answer.users, request.user) if spec.key == "user_id" else (answer.ads, request.ad)
            value = None if key is None else plain(frame.loc[key, name])
            assert value == offline[number][name], (request, name)
            known[name] += value is not None
    assert all(known.values()), known
    reasons = {reason for answer in found for counts in answer.missing.values() for reason in counts}
    assert reasons == {"absent", "stale"}


def _same_histories(requests: list[Request], found: list[OnlineFeatures]) -> None:
    tables, schema = GEMLINE.tables(), schema_of(WORLD, WORLD.history.recent_length)
    files = day_files(tables, "user_history", list(tables.readable_days("user_history")))
    everything = read_histories(files, [field.name for field in WORLD.history.fields])
    events = 0
    for request, answer in zip(requests, found, strict=True):
        rows: Rows = rows_of_request(WORLD, request.asked, request.at, answer)
        of = (rows.columns["user_id"], request.day, np.array([micros(request.at)]))
        ours, theirs = (slice_histories(schema, store, *of) for store in (rows.histories, everything))
        assert ours.lengths.tolist() == theirs.lengths.tolist(), request
        assert ours.age_us.tolist() == theirs.age_us.tolist() and ours.type.tolist() == theirs.type.tolist(), request
        for name, field in theirs.fields.items():
            assert ours.fields[name].tolist() == field.tolist(), (request, name)
        events += int(theirs.lengths.sum())
    assert events > REQUESTS


def test_memories_are_those_of_training(served: Path) -> None:
    tables, home = GEMLINE.tables(), GEMLINE.home
    generation = reference(manifests(home)[-1])
    length, outputs = WORLD.transfer.memory_length, list(tables.readable_days("fm_outputs"))
    files = day_files(tables, "fm_outputs", outputs)
    everything = Lessons(TransferPlan(generation=generation, memory_length=length, fm_outputs=files), generation).memory
    cache, remembered = cache_of(WORLD, home), 0
    for request in sampled(clock.now(WORLD, home)):
        at = micros(request.at)
        ours = knowledge_of(cache, generation.name, generation.width, request.asked, at).memory
        user = np.array([request.user or 0]), np.array([request.user is None])
        columns = {"user_id": user, "request_ts": np.array([at])}
        none = Precomputed.none(1, generation.width)
        mine, training = (build_transfer(store, columns, request.day, length, none) for store in (ours, everything))
        for name in ("memory_lengths", "memory", "memory_age"):
            assert torch.equal(getattr(mine, name), getattr(training, name)), (request, name)
        remembered += int(training.memory_lengths.sum())
    assert remembered > 0
