"""GEM as served against product popularity refitted each day with the same cut-off, purchase, pooled over 14 days.

One cold walk over the look-back window a seed: every prediction was made before training on its pair. Control:
popularity, on identical rows. Intervals resample users; of several seeds the one in the middle is reported, and all are
kept in the notes.
"""

from statistics import median
from typing import Any

from benchmarks.result import Result
from features.days import day_range, shift
from orchestration.resources import WorldResource
from orchestration.running import run_range

SEEDS = (7, 8, 9)


def run(quick: bool) -> Result:
    """Build the tables if they are not there, walk, compare.

    Args:
        quick: on the generated `tiny` log with one seed; says nothing about quality.
    """
    gemline = WorldResource(world_name="tiny" if quick else "complete_journey")
    world, tables = gemline.world, gemline.tables()
    assert world.demo is not None
    last = world.demo.next
    missing = [ds for ds in day_range(world.first_day, last) if ds not in tables.readable_days("labels")]
    if missing:
        run_range(world.name, "tables_job", missing[0], last)
    compared = {seed: _compared(gemline, last, seed) for seed in (SEEDS[:1] if quick else SEEDS)}
    middle = median(sorted(found["ne_ratio"][0] for found in compared.values()))
    chosen = next(found for found in compared.values() if found["ne_ratio"][0] == middle)
    return Result(
        figures={name: values[0] for name, values in chosen.items()},
        controls={"popularity_ne": chosen["ne"][0] / chosen["ne_ratio"][0]},
        intervals={name: (values[1], values[2]) for name, values in chosen.items()},
        bars={} if quick else {"ne_ratio": ("<=", 1.0), "auc_difference": (">=", 0.0)},
        seeds=len(compared),
        notes={
            "world": world.name,
            "days": f"14 to {last}",
            "ne_ratio_by_seed": {s: f["ne_ratio"][0] for s, f in compared.items()},
        },
    )


def _compared(gemline: WorldResource, last: str, seed: int) -> dict[str, tuple[float, float, float]]:
    import pandas as pd
    import torch

    from training import baselines, evaluate
    from training.chain import Lineage, trainer_plan
    from training.compute import Compute
    from training.judging import PAIR, as_served, due_pairs
    from training.lines import gem_line
    from training.recipes import recipe
    from training.run import train

    world, tables = gemline.world, gemline.tables()
    first = max(shift(last, -world.look_back), world.first_day)
    found = Lineage(None, None, tuple(day_range(first, shift(last, -1))))
    line = gem_line(world)
    output = tables.home.checkpoints / f"bench_popularity_{seed}" / last
    plan = trainer_plan(tables, line, last, recipe(world.recipe), seed, found, output=str(output))
    folder = train(plan, Compute(torch.device("cpu")), say=lambda _: None)
    pairs = due_pairs(tables, line, first, last)
    primary = [task.name for task in world.primary_tasks]
    recent = pairs[(pairs["label_ds"] > shift(last, -14)) & pairs["task"].isin(primary)]
    served = as_served(recent, pd.read_parquet(folder / "predictions.parquet"))
    rival = baselines.popularity_by_day(pairs, sorted(set(served["ds"])), world.look_back)
    both = served.merge(rival.rename(columns={"prediction": "prediction_b"}), on=PAIR)
    rows = [evaluate.evaluate(both, 1)[0], evaluate.compare(both, 1)[0]]
    return {name: _values(estimate) for row in rows for name, estimate in row.estimates.items()}


def _values(estimate: Any) -> tuple[float, float, float]:
    value = estimate.value.number
    return (value, estimate.interval.low, estimate.interval.high) if estimate.interval else (value, value, value)
