"""Ids that training rarely or never met are scored near the base rate, whatever the seed (case B27)."""

import numpy as np
import pytest
import torch

from features.transform.batch import Batch, Labels, build_batch, slice_histories
from features.transform.hashing import rows_of, table_salt
from features.transform.histories import HistoryStore
from features.transform.schema import Categorical, FeatureSchema, History, TaskSpec
from training.compute import Compute
from training.loop import Trainee, build, train_step
from training.recipes import recipe

RATE, ROWS = 0.01, 20_000
GROUPS = {"often": (0, 600), "rarely": (600, 800), "never": (800, 1000)}
SCHEMA = FeatureSchema(
    categorical=(Categorical("ad_id", "ad"), Categorical("hour", "hour", "request")),
    dense=(),
    history=History(),
    tables={"ad": ROWS, "hour": 26},
    surfaces=("feed",),
    event_types=("click",),
    tasks=(TaskSpec("click", True),),
)
NOBODY = HistoryStore.from_arrays(*(np.zeros(0, dtype=np.int64) for _ in range(4)), {})


def batch_of(ads: np.ndarray, rng: np.random.Generator, clicked: np.ndarray | None = None) -> Batch:
    rows = len(ads)
    columns = {
        "impression_id": np.arange(rows),
        "surface": np.full(rows, "feed"),
        "ad_id": ads,
        "hour": rng.integers(0, 24, rows),
    }
    histories = slice_histories(SCHEMA, NOBODY, np.arange(rows), np.ones(rows), np.full(rows, 10**9))
    ones = np.ones((rows, 1))
    labels = None if clicked is None else Labels(clicked[:, None].astype(np.float32), ones, ones)
    return build_batch(SCHEMA, columns, histories, labels)


def trained(seed: int) -> Trainee:
    """One pass: 600 ads with 50 impressions each, 200 with one to three; one in a hundred is clicked."""
    rng = np.random.default_rng(0)
    often, rarely, _ = (np.arange(*bounds) for bounds in GROUPS.values())
    ads = rng.permutation(np.concatenate([np.repeat(often, 50), np.repeat(rarely, rng.integers(1, 4, 200))]))
    clicked = rng.random(len(ads)) < RATE
    trainee = build(SCHEMA, recipe("gem_tiny"), seed, Compute(torch.device("cpu")))
    trainee.start_at({"click": RATE})
    for part in np.array_split(np.arange(len(ads)), 120):
        train_step(trainee, batch_of(ads[part], rng, clicked[part]), "walk")
    return trainee


def scores(trainee: Trainee, group: str) -> np.ndarray:
    """Of a thousand requests for ads of a group."""
    ads = np.random.default_rng(1).integers(*GROUPS[group], 1000)
    trainee.model.eval()
    with torch.no_grad():
        found: np.ndarray = trainee.model(batch_of(ads, np.random.default_rng(2))).sigmoid().numpy()[:, 0]
    return found


@pytest.fixture(scope="module")
def two() -> list[Trainee]:
    return [trained(seed) for seed in (1, 2)]


def test_every_group_is_scored_within_twice_the_base_rate(two: list[Trainee]) -> None:
    """Case B27."""
    for trainee in two:
        for group in GROUPS:
            assert RATE / 2 < scores(trainee, group).mean() < RATE * 2, group


def test_never_trained_ids_score_alike_in_one_model_and_nearly_so_in_two(two: list[Trainee]) -> None:
    """Case B27: they all have the default vector, and what the seeds leave is small."""
    one, other = (scores(trainee, "never") for trainee in two)
    assert abs(np.log(one.mean() / other.mean())) < 0.3
    ads = np.arange(*GROUPS["never"])
    rows = rows_of(ads, np.zeros(len(ads), dtype=bool), ROWS, table_salt("ad"))
    for trainee in two:
        counts = trainee.gem.touch_counts["ad"][torch.from_numpy(rows)]
        fresh = ads[(counts == 0).numpy()]
        assert len(fresh) > 180  # a hash of 1000 ids on 20,000 rows shares a few
        same = batch_of(fresh, np.random.default_rng(2))
        same.categorical["hour"][:] = same.categorical["hour"][0]
        with torch.no_grad():
            logits = trainee.model(same)
        assert float(logits.max() - logits.min()) < 1e-5
