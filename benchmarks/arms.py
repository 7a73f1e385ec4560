"""What recipes cost on identical rows: FLOPs by counter, fastest forward pass, fastest training step."""

from collections.abc import Mapping
from functools import partial
from time import process_time
from typing import NamedTuple

import torch

from benchmarks.timing import fastest
from features.transform.batch import Batch, concat
from features.transform.schema import FeatureSchema
from training.compute import Compute
from training.flops import count
from training.loop import Trainee, build, train_step
from training.recipes import Recipe
from training.sizes import one_request


class Cost(NamedTuple):
    """Of one batch: FLOPs of a forward pass, and processor seconds of a forward pass and of a training step."""

    flops: int
    forward: float
    step: float


def costs(recipes: Mapping[str, Recipe], schema: FeatureSchema, batch: Batch, *, turns: int) -> dict[str, Cost]:
    """Each recipe's cost of the batch, on one thread, in turns."""
    trainees = {name: build(schema, recipe, 1, Compute.alone()) for name, recipe in recipes.items()}
    flops = {name: count(trainee.model, batch) for name, trainee in trainees.items()}
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # two wait for one another as soon as anything else runs
    try:
        passes = {name: partial(_forward, one, batch) for name, one in trainees.items()}
        forward = fastest(passes, turns=turns, clock=process_time)
        steps = {name: partial(train_step, one, batch, "benchmark") for name, one in trainees.items()}
        step = fastest(steps, turns=turns, clock=process_time)
    finally:
        torch.set_num_threads(before)
    return {name: Cost(flops[name], forward[name], step[name]) for name in recipes}


@torch.no_grad()
def _forward(trainee: Trainee, batch: Batch) -> None:
    trainee.model(batch)


def log_batch(schema: FeatureSchema, longest: int, *, requests: int = 28, candidates: int = 18, seed: int = 1) -> Batch:
    """Random rows as dense as a real log's: 18 candidates a request, most histories at the cut, the others shorter."""
    generator = torch.Generator().manual_seed(seed)
    shares = (1.5 * torch.rand(requests, generator=generator)).clamp(max=1.0)
    lengths = (shares * longest).long().tolist()
    return concat([one_request(schema, candidates, events, seed=place) for place, events in enumerate(lengths)])
