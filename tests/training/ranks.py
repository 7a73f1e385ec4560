"""Run by torchrun in `test_parallel.py`: what two ranks compute, for comparison with one process.

`ranks.py PLAN.json CHECKPOINT_FOLDER OUT`: losses of a walk under each way of sharding, scores of a loaded
checkpoint, checkpoints saved at two ranks, and days with fewer rows than ranks.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch

from training import parallel
from training.checkpoint import Attempt, save
from training.compute import Compute, join, leave
from training.loop import build, score, train_on
from training.plan import ModelRef, Plan
from training.quiet import quiet
from training.reader import Reader


def losses(plan: Plan, reader: Reader, compute: Compute) -> list[float]:
    """Losses of every step of the second and third day of a cold model."""
    trainee = build(plan.schema, plan.recipe, plan.seed, compute)
    return [loss for day in plan.walk[1:] for loss in train_on(trainee, reader, reader.labelled(day), day)]


def few_rows(plan: Plan, reader: Reader, compute: Compute) -> dict[str, float]:
    """Case B14: five rows in batches of four, then a day of one row; one rank's last batch is empty."""
    trainee = build(plan.schema, plan.recipe.derive({"batch_size": 4}), plan.seed, compute)
    rows = reader.labelled(plan.walk[1])
    found = list(train_on(trainee, reader, rows.take(np.arange(5)), "five"))
    found += train_on(trainee, reader, rows.take(np.arange(1)), "one")
    found += train_on(trainee, reader, rows.take(np.arange(0)), "none")
    scored = score(trainee, reader, rows.take(np.arange(1)))
    touched = int(trainee.touches()["touches.ad"].sum())
    return {"losses": found, "score": float(scored[0, 0]), "touched": touched}  # type: ignore[dict-item]


def main(plan_path: str, folder: str, out: str) -> None:
    """Compute, and let rank 0 write."""
    plan, compute = Plan.read(Path(plan_path)), join()
    reader = Reader(plan)
    results: dict[str, object] = {"row_wise": None}
    for name, ways in {
        "planned": parallel.SHARDINGS,
        "row_wise": ("row_wise",),
        "table_wise": ("table_wise",),
    }.items():
        parallel.SHARDINGS = ways
        results[name] = losses(plan, reader, compute)
    results["few"] = few_rows(plan, reader, compute)
    for ways in (("row_wise",), ("table_wise",)):
        parallel.SHARDINGS = ways
        trainee = build(plan.schema, plan.recipe, plan.seed + 1, compute)
        trainee.load(ModelRef(folder, ""))
        np.save(
            Path(out) / f"scores_{ways[0]}_{compute.rank}.npy",
            score(trainee, reader, reader.gate(reader.plan.partition)),
        )
        attempt = Attempt(Path(out) / ways[0], 1)
        save(trainee.tensors() | trainee.touches(), attempt)
    list(train_on(trainee, reader, reader.labelled(plan.partition), "on"))
    np.save(Path(out) / f"trained_on_{compute.rank}.npy", score(trainee, reader, reader.gate(reader.plan.partition)))
    save(trainee.tensors() | trainee.touches(), Attempt(Path(out) / "trained", 1))
    if compute.rank == 0:
        results["sharded"] = type(trainee.model).__name__
        results["threads"] = torch.get_num_threads()
        (Path(out) / "results.json").write_text(json.dumps(results))
    leave(compute)


if __name__ == "__main__":
    with quiet():
        main(*sys.argv[1:])
