"""Product popularity, refitted each day: the baseline that a model must beat, so made as strong as it can be.

The log keeps every primary positive and a known share of the negatives. The odds ratio of an ad does not
depend on that share (as in a case-control study), so an ad's effect is estimated from the *kept* rows, whose
counts are exactly binomial, and only the base rate of a surface comes from the weights. Smoothing weighted
counts instead takes one kept negative for 1/w observed ones; on simulated logs at w = 0.005 that cost 0.1 to
2 % NE and a strength that is far too small. The keep rate must not depend on the ad; when it changes between
days of the window, an ad's effect absorbs the change as far as the ad was shown on other days than the rest.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import betaln

from features.days import shift
from features.errors import GemlineError
from training.metrics import Floats

STRENGTHS: Floats = np.geomspace(0.1, 1e6, 141)
"""Candidate prior strengths, in kept rows; the last one leaves nothing of an ad's own effect."""

COARSE = 10

_COUNTS = ["rows", "positives", "weight", "positive_weight"]


@dataclass(frozen=True)
class Popularity:
    """Probability of a label from the ad and the surface alone.

    Attributes:
        strength: kept rows that the prior is worth.
        base: weighted rate of all rows, for surfaces that were never seen.
        rates: weighted rate of each surface, by surface.
        odds_ratios: odds of each ad against the surfaces it was shown on, by ad id; 1 for ads never seen.
    """

    strength: float
    base: float
    rates: "pd.Series[float]"
    odds_ratios: "pd.Series[float]"

    @classmethod
    def fit(cls, pairs: pd.DataFrame, strength: float | None = None) -> "Popularity":
        """Fit to the pairs of one task.

        Args:
            pairs: columns ad_id, surface, label (0/1), weight; nothing else is read.
            strength: of the prior; by maximum likelihood on these pairs when omitted.

        Raises:
            GemlineError: there is no row, or no weight.
        """
        return cls._of_counts(_kept_counts(pairs, ["ad_id", "surface"]), strength)

    @classmethod
    def _of_counts(cls, counts: pd.DataFrame, strength: float | None = None) -> "Popularity":
        total = counts[_COUNTS].sum()
        if not total["weight"] > 0:
            raise GemlineError("popularity has no pair to learn from; give a day with labelled pairs before it")
        base = _open_rate(total["positive_weight"], total["weight"])
        share = _open_rate(total["positives"], total["rows"])
        surfaces = counts.groupby("surface")[_COUNTS].sum()
        rates = _towards(base, surfaces["positive_weight"], surfaces["weight"])
        shares = _towards(share, surfaces["positives"], surfaces["rows"])
        expected = counts["rows"] * counts["surface"].map(shares)
        ads = counts.assign(expected=expected).groupby("ad_id")[["rows", "positives", "expected"]].sum()
        prior = ads["expected"] / ads["rows"]
        if strength is None:
            strength = fit_strength(ads["positives"].to_numpy(), ads["rows"].to_numpy(), prior.to_numpy())
        won = ads["positives"] + strength * prior
        lost = ads["rows"] - ads["positives"] + strength * (1 - prior)
        return cls(strength, base, rates, won / lost * (1 - prior) / prior)

    def predict(self, ad_id: pd.Series, surface: pd.Series) -> Floats:
        """Probability [n] for each ad on its surface, on the scale of the full log."""
        rate = surface.map(self.rates).fillna(self.base).to_numpy(dtype=np.float64)
        ratio = ad_id.map(self.odds_ratios).fillna(1.0).to_numpy(dtype=np.float64)
        odds = ratio * rate / (1 - rate)
        return odds / (1 + odds)


def fit_strength(positives: Floats, rows: Floats, prior: Floats) -> float:
    """Strength s of `STRENGTHS` that makes the counts likeliest: k ~ BetaBinomial(rows, s m, s (1 - m)).

    Args:
        positives: [ads] kept positives.
        rows: [ads] kept rows.
        prior: [ads] expected share m of positives, in (0, 1).
    """

    def likelihood(place: int) -> float:
        s = STRENGTHS[place]
        won, lost = s * prior, s * (1 - prior)
        return float((betaln(positives + won, rows - positives + lost) - betaln(won, lost)).sum())

    # it has one top: look at every tenth, then at those around the best
    last = len(STRENGTHS) - 1
    near = max(range(0, last + 1, COARSE), key=likelihood)
    return float(STRENGTHS[max(range(max(0, near - COARSE), min(last, near + COARSE) + 1), key=likelihood)])


def popularity_at(pairs: pd.DataFrame, day: str, look_back: int) -> dict[str, Popularity]:
    """Popularity of each task as known before `day`.

    Args:
        pairs: columns task, label_ds, ad_id, surface, label, weight.
        day: only pairs with label_ds before it are read.
        look_back: and at most this many days before it.

    Returns:
        One model a task; a task without earlier pair has none.
    """
    keys = ["task", "label_ds", "ad_id", "surface"]
    window = pairs[pairs["label_ds"].between(shift(day, -look_back), shift(day, -1))]
    return _models(_kept_counts(window, keys), day, look_back)


def popularity_by_day(pairs: pd.DataFrame, days: Iterable[str], look_back: int) -> pd.DataFrame:
    """Popularity refitted each day as the walk does: score the day's examples, then learn from its pairs.

    Args:
        pairs: columns ds, impression_id, task, label_ds, ad_id, surface, label, weight.
        days: days `ds` to score.
        look_back: days of labels that each fit reads.

    Returns: Columns ds, impression_id, task, prediction: the pairs whose example is of one of the days. A
        pair whose task had no earlier label is left out, for nothing was known.
    """
    counts = _kept_counts(pairs, ["task", "label_ds", "ad_id", "surface"])
    examples = dict(tuple(pairs.groupby("ds", sort=False)))
    scored = [pd.DataFrame({"ds": [], "impression_id": [], "task": [], "prediction": []})]
    for day in days:
        models = _models(counts, day, look_back)
        for task, rows in examples.get(day, pairs.iloc[:0]).groupby("task"):
            if model := models.get(str(task)):
                prediction = model.predict(rows["ad_id"], rows["surface"])
                scored.append(rows[["ds", "impression_id", "task"]].assign(prediction=prediction))
    return pd.concat(scored[1:] or scored, ignore_index=True)


def _models(counts: pd.DataFrame, day: str, look_back: int) -> dict[str, Popularity]:
    window = counts[counts["label_ds"].between(shift(day, -look_back), shift(day, -1))]
    summed = window.groupby(["task", "ad_id", "surface"], as_index=False)[_COUNTS].sum()
    return {str(task): Popularity._of_counts(part) for task, part in summed.groupby("task")}


def _kept_counts(pairs: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    label = pairs["label"].to_numpy(dtype=np.float64)
    weight = pairs["weight"].to_numpy(dtype=np.float64)
    counted = pairs[keys].assign(rows=1.0, positives=label, weight=weight, positive_weight=label * weight)
    return counted.groupby(keys, as_index=False)[_COUNTS].sum()


def _open_rate(positives: float, rows: float) -> float:
    """The rate; half a row of either class is added when there is only one, to stay inside (0, 1)."""
    return positives / rows if 0 < positives < rows else (positives + 0.5) / (rows + 1)


def _towards(base: float, positives: "pd.Series[float]", rows: "pd.Series[float]") -> "pd.Series[float]":
    """Rates of surfaces, each with one expected positive's worth of the base rate mixed in."""
    return (positives + 1.0) / (rows + 1.0 / base)
