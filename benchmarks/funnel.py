"""One model for a whole funnel against a model of the same size for each task, on planted rows.

Three surfaces: on two of them a click leads to a landing, a landing to a sale (within a week, and within a day as a
head of its own), and on one of these also to an install; on the third there is no click, and an install follows the
view. All tasks share interests and differ in how they use them. Every arm is GEM with the settings and the training
step of the product, sees the same rows in the same steps, and has the same FLOPs but for its heads.

- `funnel`: all tasks, factored, weighed by entropy (and, as a control, equally).
- single: one task alone, on the rows where its label exists.
- `unfactored` (control): all tasks on all rows, no task knows its parent: nothing keeps p(sale) below p(click).

Judged on fresh rows by the expected log-loss under the true probabilities, so that no luck of labels is in it: NE is
that over the entropy of the true base rate, of a post-click task given its parent, each row weighed by the parent's
true probability. The figure of a task is NE over the single-task model's, minus 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import mean

import torch
from torch import Tensor

from benchmarks.planted import paired_interval
from benchmarks.result import Bar, Result
from features.transform.batch import Batch
from features.transform.schema import Categorical, FeatureSchema, History, HistoryField, TaskSpec
from models.funnel import NONE, parents, unconditional
from models.gem.config import GemConfig
from training.compute import Compute, deterministic
from training.flops import count
from training.loop import Trainee, build, train_step
from training.recipes import Recipe

SURFACES = ("feed", "search", "video")
CLICKED = SURFACES[:2]
TASKS = (
    TaskSpec("click", True, surfaces=CLICKED),
    TaskSpec("landing", parent="click", surfaces=CLICKED),
    TaskSpec("sale", parent="landing", surfaces=CLICKED),
    TaskSpec("sale_within_1d", parent="landing", surfaces=CLICKED),
    TaskSpec("install", parent="click", surfaces=("feed", "video")),
)
NAMES = tuple(task.name for task in TASKS)
FIELDS = {"user": 256, "ad": 128, "page": 32, "device": 8}
"""Ids of each field; row 0 of a table means missing."""
RANK = 4
LEVELS = {"click": -3.0, "landing": 0.3, "sale": -1.2, "fast": 0.2, "install": -1.5}
VIEWED = -3.5
"""Level of the install that follows a view."""
FIRST_ROWS = 50_000
"""Of which the base rates are counted, in every arm the same."""
MOST_EXCESS = 0.02
RECIPE = Recipe(
    name="funnel",
    model=GemConfig(
        architecture="dlrm",
        dim=8,
        history_length=1,
        activity_tokens=1,
        dense_hidden=8,
        dense_tokens=1,
        head_hidden=(64, 32),
    ),
    batch_size=2048,
    dense_lr=0.003,
    warmup_steps=20,
)


def schema(tasks: tuple[TaskSpec, ...] = TASKS) -> FeatureSchema:
    """Four ids and a surface; histories are empty."""
    return FeatureSchema(
        categorical=tuple(Categorical(name, name) for name in FIELDS),
        dense=(),
        history=History((HistoryField("ad", "ad"),), length=1),
        tables={name: values + 1 for name, values in FIELDS.items()},
        surfaces=SURFACES,
        event_types=("view",),
        tasks=tasks,
    )


@dataclass(frozen=True)
class Rows:
    """Impressions of the planted world.

    Attributes:
        ids: row of each field's table, int64 [B] each.
        surface: index, int64 [B].
        chance: true p(task | parent), float64 [B, T]; 0 where the task does not exist.
        exists: whether the task does, bool [B, T].
        happened: 1 where the task and all its ancestors did, float32 [B, T].
        before: the same of the task's parent, 1 where it has none, float32 [B, T].
        reach: true probability of `before`, float64 [B, T].
    """

    ids: dict[str, Tensor]
    surface: Tensor
    chance: Tensor
    exists: Tensor
    happened: Tensor
    before: Tensor
    reach: Tensor

    def batch(self, names: tuple[str, ...], *, given_parent: bool) -> Batch:
        """What a model of these tasks is trained on: labels given the parent, or on every impression."""
        place = [NAMES.index(name) for name in names]
        mask = (self.exists & (self.before > 0) if given_parent else self.exists).float()
        rows, empty = len(self.surface), torch.zeros(0)
        return Batch(
            categorical=self.ids,
            dense=torch.zeros(rows, 0),
            history_lengths=torch.zeros(1, dtype=torch.int64),
            history={"ad": empty.long()},
            history_age=empty,
            history_type=empty.long(),
            history_span=torch.zeros(1),
            surface=self.surface,
            keep_rate=torch.ones(rows),
            label=(self.happened * mask)[:, place],
            mask=mask[:, place],
            weight=torch.ones(rows, len(place)),
            impression_id=torch.arange(rows),
            history_row=torch.zeros(rows, dtype=torch.int64),
        )


class World:
    """The planted world: interests that all tasks share, weighed by each in its own way, and effects of each id."""

    def __init__(self) -> None:
        """The same world for every seed of the arms."""
        draw = torch.Generator().manual_seed(0)
        self.user = torch.randn(FIELDS["user"], RANK, generator=draw)
        self.ad = torch.randn(FIELDS["ad"], RANK, generator=draw)
        # half of what a task makes of the interests is common to all
        common = torch.randn(RANK, generator=draw)
        self.use = {name: (common + torch.randn(RANK, generator=draw)) * 0.25 for name in LEVELS}
        self.effect = {
            name: {field: 0.3 * torch.randn(values, generator=draw) for field, values in FIELDS.items()}
            for name in LEVELS
        }
        self.above = parents(schema())

    def sample(self, rows: int, seed: int) -> Rows:
        """Fresh impressions; of equal seeds, the same ones."""
        draw = torch.Generator().manual_seed(seed)
        ids = {name: torch.randint(0, values, (rows,), generator=draw) for name, values in FIELDS.items()}
        surface = torch.randint(0, len(SURFACES), (rows,), generator=draw)
        score = {name: level + self._part(name, ids) for name, level in LEVELS.items()}
        viewed = surface == SURFACES.index("video")
        score["install"] = score["install"] + torch.where(viewed, VIEWED - LEVELS["install"], 0.0)
        made = {name: value.double().sigmoid() for name, value in score.items()}
        made["sale_within_1d"] = made["sale"] * made.pop("fast")
        exists = torch.stack([_exists(task, surface) for task in TASKS], dim=1)
        chance = torch.stack([made[name] for name in NAMES], dim=1) * exists
        dice = torch.rand(rows, len(NAMES), generator=draw, dtype=torch.float64)
        # one sale, early or late: both windows read the same die
        dice[:, NAMES.index("sale_within_1d")] = dice[:, NAMES.index("sale")]
        happened = unconditional((dice < chance).double(), surface, self.above)
        return Rows(
            ids={name: value + 1 for name, value in ids.items()},
            surface=surface,
            chance=chance,
            exists=exists,
            happened=happened.float(),
            before=self._of_parent(happened, surface).float(),
            reach=self._of_parent(unconditional(chance, surface, self.above), surface),
        )

    def _part(self, name: str, ids: Mapping[str, Tensor]) -> Tensor:
        liking = (self.user[ids["user"]] * self.ad[ids["ad"]]) @ self.use[name]
        return liking + torch.stack([effect[ids[field]] for field, effect in self.effect[name].items()]).sum(0)

    def _of_parent(self, values: Tensor, surface: Tensor) -> Tensor:
        """Each task's parent's value, 1 where it has none: [B, T]."""
        above = self.above[surface]
        return torch.where(above == NONE, torch.ones_like(values), values.gather(1, above.clamp(min=0)))


def _exists(task: TaskSpec, surface: Tensor) -> Tensor:
    return torch.isin(surface, torch.tensor([SURFACES.index(name) for name in task.surfaces]))


ARMS: dict[str, tuple[tuple[TaskSpec, ...], str]] = {
    "funnel": (TASKS, "entropy"),
    "equal": (TASKS, "equal"),
    "unfactored": (tuple(replace(task, parent=None) for task in TASKS), "entropy"),
    **{f"single_{task.name}": ((replace(task, parent=None),), "entropy") for task in TASKS},
}
"""Tasks of each arm, and how it weighs them. A single task's parent is forgotten, its labels are those given it."""


def train(world: World, arm: str, *, steps: int, seed: int) -> Trainee:
    """One arm from cold, as the walk does it: biases and weights from the base rates of the first rows."""
    tasks, weights = ARMS[arm]
    names, given = tuple(task.name for task in tasks), arm != "unfactored"
    trainee = build(schema(tasks), RECIPE.derive({"task_weights": weights}), seed, Compute.alone())
    first = world.sample(FIRST_ROWS, 1_000_000 * (seed + 1)).batch(names, given_parent=given)
    counted = (first.label.sum(0) / first.mask.sum(0).clamp(min=1)).tolist()
    rates = {name: rate for name, rate in zip(names, counted, strict=True) if 0 < rate < 1}
    trainee.start_at(rates)
    trainee.weigh(rates)
    for step in range(steps):
        rows = world.sample(RECIPE.batch_size, 1_000_000 * (seed + 1) + 1 + step)
        train_step(trainee, rows.batch(names, given_parent=given), f"{arm}, step {step}")
    return trainee


@torch.no_grad()
def judge(trainee: Trainee, rows: Rows) -> Tensor:
    """Probabilities as the model gives them, float64 [B, T of the arm]."""
    trainee.model.eval()
    names = trainee.schema.task_names
    found: Tensor = trainee.model(rows.batch(names, given_parent=True)).double().sigmoid()
    return found


def entropies(found: Tensor, chance: Tensor, weight: Tensor) -> float:
    """Expected log-loss of one task over the entropy of its base rate; all [B]."""
    loss = -(chance * found.log() + (1 - chance) * (-found).log1p())
    rate = (weight * chance).sum() / weight.sum()
    own = -(rate * rate.log() + (1 - rate) * (-rate).log1p())
    return float((weight * loss).sum() / weight.sum() / own)


def figures(world: World, *, steps: int, rows: int, seed: int) -> dict[str, float]:
    """All arms of one seed: NE by arm and task, and shares of (row, child) whose child is likelier than its parent."""
    judged, found = world.sample(rows, 500_000 + seed), dict[str, float]()
    weight = judged.reach * judged.exists
    marginal = unconditional(judged.chance, judged.surface, world.above)
    for arm in ARMS:
        trainee = train(world, arm, steps=steps, seed=seed)
        given = judge(trainee, judged)
        for place, name in enumerate(trainee.schema.task_names):
            at = NAMES.index(name)
            truth, weights = (marginal, judged.exists) if arm == "unfactored" else (judged.chance, weight)
            key = arm if arm == f"single_{name}" else f"{arm}_{name}"
            found[key] = _ne(given[:, place], truth[:, at], weights[:, at])
        if len(trainee.schema.tasks) == len(TASKS):
            served = given if arm == "unfactored" else unconditional(given, judged.surface, world.above)
            found[f"{arm}_violations"] = violations(served, judged, world)
            for name in NAMES:
                at = NAMES.index(name)
                found[f"{arm}_served_{name}"] = _ne(served[:, at], marginal[:, at], judged.exists[:, at])
    return found


def _ne(found: Tensor, chance: Tensor, weight: Tensor) -> float:
    held = weight > 0
    return entropies(found[held], chance[held], weight[held].double())


def violations(served: Tensor, rows: Rows, world: World) -> float:
    """Share of (row, task with a parent) for which the task is likelier than the parent."""
    above = world.above[rows.surface]
    asked = rows.exists & (above != NONE)
    return float((served > served.gather(1, above.clamp(min=0)))[asked].double().mean())


def flops(world: World) -> dict[str, int]:
    """Of a forward pass, by arm, an example."""
    found = {}
    for arm, (tasks, _) in ARMS.items():
        batch = world.sample(64, 0).batch(tuple(task.name for task in tasks), given_parent=True)
        found[arm] = count(build(schema(tasks), RECIPE, 0, Compute.alone()).model, batch) // 64
    return found


def run(quick: bool) -> Result:
    """Train all arms.

    Args:
        quick: two seeds and few steps, without bars.
    """
    torch.set_num_threads(1)  # the matrices are too small for two
    world = World()
    seeds, steps, rows = (2, 30, 20_000) if quick else (6, 1_000, 100_000)
    with deterministic():
        by_seed = [figures(world, steps=steps, rows=rows, seed=seed) for seed in range(seeds)]
        cost = flops(world)
    excess = {
        f"{arm}_{name}": [one[f"{arm}_{name}"] / one[f"single_{name}"] - 1 for one in by_seed]
        for arm in ("funnel", "equal")
        for name in NAMES
    }
    excess |= {
        f"served_over_unfactored_{name}": [
            one[f"funnel_served_{name}"] / one[f"unfactored_served_{name}"] - 1 for one in by_seed
        ]
        for name in NAMES
    }
    found = {name: paired_interval(values) for name, values in excess.items()}
    judged = {f"funnel_{name}": found[f"funnel_{name}"] for name in NAMES}
    bars: dict[str, Bar] = {name: ("<=", MOST_EXCESS) for name in judged} | {"violations": ("<=", 0.0)}
    return Result(
        figures={name: value for name, (value, _) in judged.items()}
        | {"violations": max(one["funnel_violations"] for one in by_seed)},
        controls={name: value for name, (value, _) in found.items() if name not in judged}
        | {"violations_unfactored": mean(one["unfactored_violations"] for one in by_seed)}
        | {
            f"ne_{name}": mean(one[name] for one in by_seed)
            for name in sorted(by_seed[0])
            if name.endswith(NAMES) and "served" not in name
        },
        intervals={name: interval for name, (_, interval) in judged.items()},
        bars={} if quick else bars,
        seeds=seeds,
        notes={"steps": steps, "rows_a_step": RECIPE.batch_size, "judged_rows": rows, "flops_an_example": cost},
    )
