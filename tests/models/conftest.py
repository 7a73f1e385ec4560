"""Toy schemas and logs for model tests: small enough to read, with a known reason behind every label."""

from collections.abc import Callable

import numpy as np
import pytest

from features.transform.batch import Batch, Labels, build_batch, slice_histories
from features.transform.hashing import string_id
from features.transform.histories import HistoryStore
from features.transform.schema import Categorical, Dense, FeatureSchema, History, HistoryField, TaskSpec

DAY_US = 86_400_000_000


@pytest.fixture(scope="session")
def schema() -> FeatureSchema:
    """Two surfaces, a primary and a dependent task, products with categories."""
    return FeatureSchema(
        categorical=(
            Categorical("ad_id", "ad"),
            Categorical("ad_category", "category"),
            Categorical("hour", "hour", "request"),
        ),
        dense=(Dense("ad_events_7d", "count"), Dense("ad_share_7d", "ratio")),
        history=History(
            (HistoryField("ad_id", "ad", "ad_id"), HistoryField("category", "category", "ad_category")), 50
        ),
        tables={"ad": 2_000, "category": 100, "hour": 26},
        surfaces=("feed", "search"),
        event_types=("purchase", "click"),
        tasks=(TaskSpec("purchase", True), TaskSpec("rebought", False, "purchase", ("feed",))),
    )


def make_store(rng: np.random.Generator, users: int, events: int, ads: int) -> HistoryStore:
    """Events of days 0 ... 99; every user has a few favourite ads."""
    user = rng.integers(0, users, events)
    favourite = (user[:, None] * 7 + np.arange(5)) % ads
    ad = np.where(rng.random(events) < 0.5, favourite[np.arange(events), rng.integers(0, 5, events)], -1)
    ad = np.where(ad < 0, rng.integers(0, ads, events), ad)
    day = rng.integers(0, 100, events)
    kind = np.where(rng.random(events) < 0.7, string_id("purchase"), string_id("click"))
    stamp = day * DAY_US + rng.integers(0, DAY_US, events)
    return HistoryStore.from_arrays(user, day, stamp, kind, {"ad_id": ad, "category": ad % 20})


def make_batch(
    schema: FeatureSchema,
    *,
    seed: int = 0,
    requests: int = 40,
    per_request: int = 8,
    events: int = 4_000,
    users: int = 50,
) -> Batch:
    """Rows of day 100: bought more often if the user bought the same ad before, and if the ad is popular."""
    rng = np.random.default_rng(seed)
    ads, rows = 300, requests * per_request
    popularity = np.random.default_rng(99).normal(0.0, 1.0, ads)
    store = make_store(np.random.default_rng(98), users, events, ads)
    user = np.repeat(rng.integers(0, users, requests), per_request)
    request_us = np.repeat(100 * DAY_US + rng.integers(1, DAY_US, requests), per_request)
    favourite = (user * 7 + rng.integers(0, 5, rows)) % ads
    ad = np.where(rng.random(rows) < 0.3, favourite, rng.integers(0, ads, rows))
    histories = slice_histories(schema, store, user, np.full(rows, 100), request_us)
    owners = np.repeat(store.user_ids, np.diff(store.offsets))
    seen = set(zip(owners, store.fields["ad_id"].values, strict=True))
    match = np.array([(u, a) in seen for u, a in zip(user, ad, strict=True)], dtype=bool)
    logit = -2.5 + 0.8 * popularity[ad] + 2.5 * match
    label = (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    again = (rng.random(rows) < 0.3).astype(np.float32)
    columns = {
        "impression_id": np.arange(rows) + seed * 1_000_000,
        "surface": np.where(rng.random(rows) < 0.5, "feed", "search"),
        "ad_id": ad,
        "ad_category": ad % 20,
        "hour": request_us // 3_600_000_000 % 24,
        "ad_events_7d": np.where(rng.random(rows) < 0.1, np.nan, rng.poisson(3, rows)),
        "ad_share_7d": rng.random(rows) * 1e-3,
    }
    due = np.stack([np.ones(rows), label], 1)
    labels = Labels(np.stack([label, again], 1) * due, due, np.ones((rows, 2)))
    return build_batch(schema, columns, histories, labels)


@pytest.fixture(scope="session")
def toy() -> Callable[..., Batch]:
    """`make_batch`."""
    return make_batch
