"""GEM against its peers on the real log: purchase on the promotional surfaces over a year, weeks 44-53 as the test.

Every model trains on weeks 5-43, is frozen then, and predicts identical rows with identical information. Peers:
product popularity; boosting with running counts; strong boosting (windows, recency, regularity, prices,
promotions); DIN and DCNv2 of FuxiCTR; the product's own siblings of GEM. Settings were chosen on weeks 40-43, see
`benchmarks.rivals.tuning`. Metrics weigh every kept row back to the full log; intervals resample households and seeds.
The first run builds the year's tables (an hour); predictions are kept, so an ended run goes on where it was.
"""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.result import Bar, Result
from training.metrics import Floats

if TYPE_CHECKING:
    from benchmarks.rivals.dataset import Truth

CHALLENGER = "gem_small"
SIBLINGS = ("gem_small_interformer", "gem_small_dlrm")
"""The product's other architectures, with the challenger's settings."""
NEURAL = ("din", "dcnv2", *SIBLINGS)
STRONG = "boosting_strong"
TREES = ("boosting_running", STRONG)
SEEDS = (7, 8, 9)
BARS: dict[str, Bar] = {
    "ratio_best_neural": ("<=", 0.94),
    "ratio_boosting_running": ("<=", 0.93),
    f"ratio_{STRONG}_recalibrated": ("<=", 0.99),
    "calibration_off": ("<=", 0.05),
    "calibration_recalibrated_off": ("<=", 0.02),
}


def run(quick: bool) -> Result:
    """Build what is missing, train who was not trained yet, judge.

    Args:
        quick: three weeks of the shipped slice, one seed, small settings; says nothing about quality.
    """
    from benchmarks.rivals.contenders import predictions, tuned
    from benchmarks.rivals.dataset import FINAL, HOUSEHOLDS, QUICK, open_records
    from benchmarks.rivals.world import LAST, year_world
    from features.worlds import load_world

    world = load_world("complete_journey") if quick else year_world()
    span = QUICK if quick else FINAL
    records = open_records(world, span.judged.days[-1] if quick else LAST)
    households = 1.0 if quick else HOUSEHOLDS
    dataset, truth = records.dataset(span, households)
    given: dict[str, Floats] = {}
    for name in _names(quick):
        seeds = SEEDS[:1] if quick or name == "popularity" else SEEDS
        settings = {"rounds": 50} if quick and name in TREES else tuned(name)
        given[name] = np.stack([predictions(name, settings, dataset, seed) for seed in seeds])
    result = _result(truth, given)
    data = {"world": world.name, "households": households, "fitted": len(dataset.fit), "judged": len(dataset.judged)}
    return replace(result, bars={} if quick else result.bars, notes=data | result.notes)


def _names(quick: bool) -> list[str]:
    from benchmarks.rivals.environment import installed

    if quick:
        return ["gem_tiny", "popularity", *(TREES if installed() else ())]
    return [CHALLENGER, "popularity", *TREES, *NEURAL]


def _result(truth: "Truth", given: dict[str, Floats]) -> Result:
    """The first of the given models against all others."""
    from benchmarks.rivals import judge

    gem, *peers = given
    found = {name: judge.scores(truth, one) for name, one in given.items()}
    fitted = {name: judge.rolling_platt(truth, given[name]) for name in (gem, STRONG) if name in given}
    best = min((peer for peer in peers if peer in NEURAL), key=lambda peer: found[peer].ne, default=None)
    ratios = {f"ratio_{peer}": (given[gem], given[peer]) for peer in peers}
    if best:
        ratios["ratio_best_neural"] = given[gem], given[best]
    if STRONG in fitted:
        ratios[f"ratio_{STRONG}_recalibrated"] = fitted[gem], fitted[STRONG]
    estimates = {name: judge.ne_ratio(truth, own, other) for name, (own, other) in ratios.items()}
    estimates["calibration"] = judge.calibration(truth, given[gem])
    estimates["calibration_recalibrated"] = judge.calibration(truth, fitted[gem])
    figures = asdict(found[gem]) | {name: estimate.value for name, estimate in estimates.items()}
    figures |= {f"{name}_off": abs(figures[name] - 1) for name in ("calibration", "calibration_recalibrated")}
    after = {name: asdict(judge.scores(truth, one)) for name, one in fitted.items()}
    return Result(
        figures=figures,
        controls={f"{peer}_{what}": value for peer in peers for what, value in asdict(found[peer]).items()},
        intervals={name: (estimate.low, estimate.high) for name, estimate in estimates.items()},
        bars={name: bar for name, bar in BARS.items() if name in figures},
        seeds=max(len(one) for one in given.values()),
        notes={
            "challenger": gem,
            "best_neural": best,
            "recalibrated": after,
            "ne_by_seed": {name: judge.ne_by_seed(truth, one) for name, one in given.items()},
        },
    )
