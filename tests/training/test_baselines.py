"""Popularity: likelihood against scipy, strength against the truth, and no look at the day or after it."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import betabinom

from features.days import day_range, shift
from features.errors import GemlineError
from training import metrics
from training.baselines import STRENGTHS, Popularity, fit_strength, popularity_at, popularity_by_day
from training.metrics import Sample

DAYS = day_range("2017-06-01", "2017-06-12")
KEEP = 0.02


def world(seed: int, ads: int = 300, rows: int = 200_000) -> pd.DataFrame:
    """A full log of two surfaces whose true probabilities are known, with a task known a day later."""
    rng = np.random.default_rng(seed)
    ad = rng.choice(ads, rows, p=rng.dirichlet(np.full(ads, 0.7)))
    surface = rng.choice(["mailer", "display"], rows, p=[0.3, 0.7])
    popular = rng.normal(0, 1.2, ads)
    odds = np.exp(-6.5 + popular[ad] + np.where(surface == "mailer", 1.0, 0.0))
    probability = odds / (1 + odds)
    log = pd.DataFrame({"ad_id": ad + 10**12, "surface": surface, "truth": probability})
    log["label"] = (rng.random(rows) < probability).astype(float)
    log["weight"] = np.where(log["label"] == 1, 1.0, 1 / KEEP)
    log["ds"] = rng.choice(DAYS, rows)
    log["impression_id"] = np.arange(rows)
    late = rng.random(rows) < 0.3
    log["task"] = np.where(late, "rebought", "purchase")
    log["label_ds"] = [shift(ds, 2) if slow else ds for ds, slow in zip(log["ds"], late, strict=True)]
    return log


def sampled(log: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """All positives and a known share of the negatives."""
    keep = (log["label"] == 1) | (np.random.default_rng(seed).random(len(log)) < KEEP)
    return log[keep].reset_index(drop=True)


def ne(log: pd.DataFrame, prediction: np.ndarray) -> float:
    """NE on the full log."""
    value = metrics.normalized_entropy(Sample.of(log["label"], prediction)).number
    assert value is not None
    return value


def test_strength_is_the_likeliest_one_by_scipy() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(1, 60, 200)
    prior = rng.uniform(0.05, 0.2, 200)
    positives = rng.binomial(rows, rng.beta(8 * prior, 8 * (1 - prior)))
    oracle = [betabinom.logpmf(positives, rows, s * prior, s * (1 - prior)).sum() for s in STRENGTHS]
    found = fit_strength(positives.astype(float), rows.astype(float), prior)
    assert found == STRENGTHS[int(np.argmax(oracle))]
    assert 4 < found < 16


def test_equal_ads_leave_nothing_of_their_own_counts() -> None:
    rng = np.random.default_rng(1)
    rows = np.full(2000, 30.0)
    strength = fit_strength(rng.binomial(30, 0.1, 2000).astype(float), rows, np.full(2000, 0.1))
    assert strength > 500


def test_one_surface_is_the_smoothed_share_mapped_back_by_the_keep_rate() -> None:
    pairs = pd.DataFrame({"ad_id": [1] * 6 + [2] * 14, "surface": "mailer"})
    pairs["label"] = [1.0] * 3 + [0.0] * 3 + [1.0] * 2 + [0.0] * 12
    pairs["weight"] = np.where(pairs["label"] == 1, 1.0, 100.0)
    model = Popularity.fit(pairs, strength=4.0)
    base_rate, base_share = 5 / 1505, 5 / 20
    rate = (5 + 1) / (1505 + 1 / base_rate)
    share = (5 + 1) / (20 + 1 / base_share)
    odds = (3 + 4 * share) / (3 + 4 * (1 - share)) * (1 - share) / share * rate / (1 - rate)
    found = model.predict(pd.Series([1, 99]), pd.Series(["mailer", "mailer"]))
    assert found == pytest.approx([odds / (1 + odds), rate], rel=1e-12)
    assert model.predict(pd.Series([99]), pd.Series(["never seen"])) == pytest.approx([base_rate])


def test_beats_base_rates_and_unsmoothed_rates_and_is_calibrated_on_the_full_log() -> None:
    log = world(2)
    train, test = log[log["ds"] <= DAYS[7]], log[log["ds"] > DAYS[7]]
    pairs = sampled(train)
    model = Popularity.fit(pairs)
    found = model.predict(test["ad_id"], test["surface"])
    base = Popularity.fit(pairs, strength=1e9).predict(test["ad_id"], test["surface"])
    raw = Popularity.fit(pairs, strength=1e-3).predict(test["ad_id"], test["surface"])
    assert ne(test, found) < ne(test, base) - 0.02
    assert ne(test, found) < ne(test, raw) - 0.005
    best = min(ne(test, Popularity.fit(pairs, s).predict(test["ad_id"], test["surface"])) for s in STRENGTHS[::10])
    assert ne(test, found) < best + 0.003
    assert found.sum() / test["truth"].sum() == pytest.approx(1.0, abs=0.1)
    oracle = test["truth"].to_numpy()
    assert ne(test, oracle) < ne(test, found) < ne(test, oracle) + 0.05


def test_odds_ratios_do_not_depend_on_the_keep_rate() -> None:
    log = world(3, ads=20)
    full = Popularity.fit(log.assign(weight=1.0))
    part = Popularity.fit(sampled(log))
    assert part.base == pytest.approx(full.base, rel=0.05)
    error = np.log(part.odds_ratios) - np.log(full.odds_ratios.loc[part.odds_ratios.index])
    assert np.average(error.abs(), weights=log.groupby("ad_id").size().loc[error.index]) < 0.15


@pytest.mark.parametrize("seed", range(6))
def test_no_pair_known_on_or_after_the_day_moves_its_prediction(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = sampled(world(seed, rows=20_000))
    day = str(rng.choice(DAYS[3:-1]))
    before = popularity_by_day(pairs, [day], look_back=5).set_index(["impression_id", "task"])["prediction"]
    assert len(before) > 10
    changed = pairs.copy()
    hidden = (changed["label_ds"] >= day) | (changed["label_ds"] < shift(day, -5))
    changed.loc[hidden, "label"] = rng.integers(0, 2, hidden.sum())
    changed.loc[hidden, "weight"] = rng.choice([1.0, 1000.0], hidden.sum())
    unseen = hidden & (changed["ds"] != day)
    changed = changed[~(unseen & (rng.random(len(changed)) < 0.5))]
    after = popularity_by_day(changed, [day], look_back=5).set_index(["impression_id", "task"])["prediction"]
    pd.testing.assert_series_equal(before, after)
    known = changed["label_ds"].between(shift(day, -5), shift(day, -1))
    changed.loc[known, "label"] = 1 - changed.loc[known, "label"]
    moved = popularity_by_day(changed, [day], look_back=5).set_index(["impression_id", "task"])["prediction"]
    assert (before - moved).abs().min() > 0


def test_each_day_is_a_fit_of_its_own() -> None:
    pairs = sampled(world(7, rows=20_000))
    together = popularity_by_day(pairs, DAYS, look_back=4)
    for day in (DAYS[1], DAYS[6], DAYS[-1]):
        bought = pairs[pairs["task"] == "purchase"]
        window = bought[(bought["label_ds"] < day) & (bought["label_ds"] >= shift(day, -4))]
        rows = bought[bought["ds"] == day]
        expected = Popularity.fit(window).predict(rows["ad_id"], rows["surface"])
        found = together[(together["ds"] == day) & (together["task"] == "purchase")]
        assert found["impression_id"].tolist() == rows["impression_id"].tolist()
        assert found["prediction"].to_numpy() == pytest.approx(expected, rel=1e-12)
        again = popularity_at(pairs, day, 4)["purchase"].predict(rows["ad_id"], rows["surface"])
        assert again == pytest.approx(expected, rel=1e-12)


def test_days_before_the_first_label_have_no_prediction() -> None:
    pairs = sampled(world(8, rows=20_000))
    found = popularity_by_day(pairs, DAYS, look_back=30)
    first = found.groupby("task")["ds"].min()
    assert first["purchase"] == DAYS[1]
    assert first["rebought"] == DAYS[3]
    assert popularity_by_day(pairs, [DAYS[0]], 30).columns.tolist() == [
        "ds",
        "impression_id",
        "task",
        "prediction",
    ]
    assert popularity_by_day(pairs, [DAYS[0]], 30).empty


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_one_class_stays_a_probability(label: float) -> None:
    pairs = pd.DataFrame({"ad_id": [1, 2, 2], "surface": ["a", "a", "b"], "label": label, "weight": 1.0})
    found = Popularity.fit(pairs).predict(pairs["ad_id"], pairs["surface"])
    assert np.isfinite(found).all()
    assert ((found > 0) & (found < 1)).all()


def test_nothing_to_learn_from_says_so() -> None:
    with pytest.raises(GemlineError, match="no pair to learn from"):
        Popularity.fit(pd.DataFrame({"ad_id": [], "surface": [], "label": [], "weight": []}))
