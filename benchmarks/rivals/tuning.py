"""`python -m benchmarks.rivals.tuning [NAME ...]`: try every contender's settings, write the choice to `tuned.json`.

Trained on weeks 5-39, judged on weeks 40-43, one seed. No day of the test weeks is read.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.rivals.contenders import STAGES, TRIALS, TUNED, Settings, predictions
from benchmarks.rivals.dataset import HOUSEHOLDS, TUNING, Dataset, Truth, open_records
from benchmarks.rivals.judge import scores
from benchmarks.rivals.world import year_world

SEED = 7


def tried(name: str, settings: Settings, dataset: Dataset, truth: Truth) -> list[dict[str, Any]]:
    """Trials of one setting: one, or one for each number of trees."""
    given = predictions(name, settings, dataset, SEED)
    if given.ndim == 1:
        return [{"settings": dict(settings), "ne": round(scores(truth, given[None]).ne, 5)}]
    return [
        {"settings": {**settings, "rounds": rounds}, "ne": round(scores(truth, one[None]).ne, 5)}
        for rounds, one in zip(STAGES, given, strict=True)
    ]


def tune(names: Sequence[str]) -> None:
    """Try, choose the lowest NE, and keep all trials beside the choice."""
    records = open_records(year_world(), TUNING.judged.days[-1])
    dataset, truth = records.dataset(TUNING, HOUSEHOLDS)
    for name in names:
        trials = [one for settings in TRIALS[name] for one in tried(name, settings, dataset, truth)]
        best = min(trials, key=lambda trial: trial["ne"])
        known = json.loads(TUNED.read_text(encoding="utf-8")) if TUNED.exists() else {}
        known[name] = {"chosen": best["settings"], "trials": trials}
        TUNED.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{name}: NE {best['ne']:.4f} with {best['settings']}", flush=True)


if __name__ == "__main__":
    tune(sys.argv[1:] or list(TRIALS))
