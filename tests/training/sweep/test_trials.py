"""Judging and picking: the cheapest mix of which it is known that it loses next to nothing."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from features.errors import GemlineError
from tests.training.sweep.made import ratio, row, trial, undefined, unknown
from training.metrics import Reason
from training.mixing import Mixing
from training.sweep.trials import judged, picked

HALF, FLAT, FIFTH = Mixing(budget=0.5), Mixing(tau=0.0, budget=0.5), Mixing(budget=0.2)
WHOLE = trial(Mixing(), 1000, row("click", ne_ratio=ratio(1.0)), row("like", ne_ratio=ratio(1.0)))


def test_the_upper_end_decides_and_not_the_value() -> None:
    good = trial(HALF, 500, row("click", ne_ratio=ratio(1.0005, 0.001)))
    better_but_unsure = trial(FIFTH, 200, row("click", ne_ratio=ratio(0.99, 0.05)))
    assert picked([WHOLE, good, better_but_unsure], ("click",), 0.002).trial is good
    assert picked([WHOLE, good, better_but_unsure], ("click",), 0.001).trial is WHOLE
    assert picked([WHOLE, good, better_but_unsure], ("click",), 0.05).trial is better_but_unsure


def test_of_equally_cheap_ones_the_lower_ne_is_picked() -> None:
    one, other = (
        trial(mix, 500, row("click", ne_ratio=ratio(value))) for mix, value in ((HALF, 1.001), (FLAT, 1.0005))
    )
    assert picked([WHOLE, one, other], ("click",), 0.002).trial is other
    assert picked([WHOLE, other, one], ("click",), 0.002).trial is other


def test_every_primary_task_with_evidence_must_hold() -> None:
    mixed = trial(HALF, 500, row("click", ne_ratio=ratio(1.0)), row("like", ne_ratio=ratio(1.01)))
    assert picked([WHOLE, mixed], ("click", "like"), 0.002).trial is WHOLE
    assert picked([WHOLE, mixed], ("click",), 0.002).trial is mixed


def test_a_task_without_evidence_has_no_vote() -> None:
    few = "insufficient (3)"
    rival = trial(Mixing(), 1000, row("click", ne_ratio=ratio(1.0)), row("like", few))
    mixed = trial(HALF, 500, row("click", ne_ratio=ratio(1.0)), row("like", few))
    found = picked([rival, mixed], ("click", "like"), 0.002)
    assert found.trial is mixed and found.tasks == ("click",) and found.silent == {"like": few}
    nothing = picked([rival, mixed], ("like", "buy"), 0.002)
    assert nothing.trial is None and nothing.name == "none"
    assert nothing.reasons == "like: insufficient (3), buy: undefined (no rows)"


@pytest.mark.parametrize("estimate", [unknown(1.0), undefined(Reason.NON_FINITE_PREDICTION)])
def test_what_is_not_known_is_not_picked_for_being_cheap(estimate: Any) -> None:
    cheap = trial(FIFTH, 200, row("click", ne_ratio=estimate))
    assert picked([WHOLE, cheap], ("click",), 10.0).trial is WHOLE
    # also where nothing has an interval: then all rows stand
    rival = trial(Mixing(), 1000, row("click", ne_ratio=unknown(1.0)))
    assert picked([rival, cheap], ("click",), 10.0).trial is rival


def test_the_pick_is_the_one_of_a_plain_search() -> None:
    rng = np.random.default_rng(0)
    reached = set()
    for _ in range(300):
        rows = rng.integers(1, 5, 6) * 100
        high, tolerance = rng.uniform(0.998, 1.006, (6, 2)), 0.002
        trials = [WHOLE] + [
            trial(
                Mixing(budget=(place + 1) / 10),
                int(rows[place]),
                *(
                    row(task, ne_ratio=ratio(high[place, at] - 0.001, 0.001))
                    for at, task in enumerate(("click", "like"))
                ),
            )
            for place in range(6)
        ]
        best, cost = 0, (1000, 1.0)
        for place in range(6):
            own = (int(rows[place]), float(high[place].mean()) - 0.001)
            if high[place, 0] <= 1 + tolerance and high[place, 1] <= 1 + tolerance and own < cost:
                best, cost = place + 1, own
        assert picked(trials, ("click", "like"), tolerance).trial is trials[best]
        reached.add(best)
    assert reached == set(range(7))


def test_the_worst_surface_is_the_farthest_by_ratio() -> None:
    table = [row("click", surface=name, calibration=ratio(c)) for name, c in (("feed", 1.5), ("story", 0.6))]
    found = trial(HALF, 500, table=[*table, row("click", calibration=ratio(9.0)), row("click", "ok", "mail")])
    assert found.worst_surface("click") == ("story", 0.6)
    assert found.worst_surface("buy") is None


class HandArm(SimpleNamespace):
    """An arm whose predictions are made here."""

    mixing: Mixing
    rows: int
    prediction: np.ndarray

    @property
    def manifests(self) -> list[dict[str, Any]]:
        return [{"digest": str(self.mixing)}]

    def total(self, what: str) -> float:
        return self.rows

    def served(self, pairs: pd.DataFrame) -> pd.DataFrame:
        return pairs.assign(prediction=self.prediction)


def test_a_harmless_mix_is_picked_and_a_harmful_one_is_not() -> None:
    """From predictions to the pick: a cheap one that promises twice too much, one with hardly any noise."""
    rng = np.random.default_rng(1)
    truth = rng.beta(2, 8, 20_000)
    pairs = pd.DataFrame({"label_ds": "2024-05-02", "ds": "2024-05-02", "impression_id": np.arange(len(truth))})
    pairs = pairs.assign(task="click", label=(rng.random(len(truth)) < truth).astype(float), weight=1.0)
    pairs = pairs.assign(surface=rng.choice(["feed", "story"], len(truth)), user_id=rng.integers(0, 900, len(truth)))
    noisy = np.clip(truth * (1 + 0.01 * rng.normal(size=len(truth))), 1e-6, 1)
    arms: Any = [
        HandArm(mixing=Mixing(), rows=1000, prediction=truth),
        HandArm(mixing=HALF, rows=500, prediction=noisy),
        HandArm(mixing=FIFTH, rows=200, prediction=np.minimum(2 * truth, 1.0)),
    ]
    whole, half, fifth = trials = judged(arms, pairs, 50)
    assert picked(trials, ("click",), 0.002).trial is half
    assert fifth.lost("click").interval.low > 1.02
    assert fifth.worst_surface("click")[1] > 1.8 and 0.9 < whole.worst_surface("click")[1] < 1.1
    # without a tolerance nothing cheaper is good enough
    assert picked(trials, ("click",), 0.0).trial is whole
    with pytest.raises(GemlineError, match="identical rows, but 1 of"):
        arms[1].served = lambda rows: rows.iloc[:-1].assign(prediction=noisy[:-1])
        judged(arms, pairs, 50)
