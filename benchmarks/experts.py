"""Domain experts against experts that all surfaces share and against a model for each surface, on planted rows.

Worlds of two surfaces, drawn anew for each seed: `transfer`, the same factors behind a rich surface and one with a
tenth of the rows; `conflict`, as many rows each, of which ads and tastes mean the opposite on the second; `alike`, no
plant, as a control: two names of one surface. The arms are GEM with the product's training step, its optimizer of
surfaces' rows among it:

- `experts`: two shared experts and one of each surface's own.
- `shared` (control): three shared experts; the surface is still an input, with gates and heads of its own.
- `separate` (control): a model for each surface, of three experts, trained on that surface's rows alone.

A row passes three experts in every arm, so FLOPs an example are the same. All arms see the same rows in the same
steps; each tries the same learning rates on seeds of their own, a separate model for its surface alone.

Judged on fresh rows by the expected log-loss under the true probabilities, so that no luck of labels is in it. A
figure is a ratio of NE, paired by seed. Intervals are of 99 %: a bar that is met has a standard error below a third of
its margin. Seeds are added from 6 up to 12 until the standard errors of the figures are that small.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import mean

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from benchmarks.funnel import entropies
from benchmarks.planted import paired_interval
from benchmarks.result import Bar, Result
from features.transform.batch import Batch
from features.transform.schema import Categorical, FeatureSchema, History, HistoryField, TaskSpec
from models.gem.config import GemConfig
from training.compute import Compute, deterministic
from training.flops import count
from training.loop import Trainee, build, train_step
from training.recipes import Recipe

SURFACES = ("first", "second")
WORLDS = {"transfer": (0.9, 0.1), "conflict": (0.5, 0.5), "alike": (0.5, 0.5)}
"""Share of the rows of each surface."""
ARMS = {"experts": (2, 1), "shared": (3, 0), "separate": (3, 0)}
"""Shared experts and experts of each surface's own."""
FIELDS = {"user": 64, "ad": 48, "page": 16}
"""Ids of each field; row 0 of a table means missing."""
RANK, LEVEL = 4, -2.5
FIRST_ROWS = 50_000
"""Of which the base rates are counted."""
BATCH, STEPS = 1024, 300
RATES = (0.002, 0.005, 0.01, 0.02)
TUNING_SEEDS = (900, 901)
FEWEST, MOST = 6, 12
CONFIDENCE = 0.99
MODEL = GemConfig(
    architecture="dlrm",
    dim=8,
    history_length=1,
    activity_tokens=1,
    dense_hidden=8,
    dense_tokens=1,
    head_hidden=(64, 32),
)


def schema(surfaces: tuple[str, ...] = SURFACES) -> FeatureSchema:
    """Three ids and a surface; histories are empty."""
    return FeatureSchema(
        categorical=tuple(Categorical(name, name) for name in FIELDS),
        dense=(),
        history=History((HistoryField("ad", "ad"),), length=1),
        tables={name: values + 1 for name, values in FIELDS.items()},
        surfaces=surfaces,
        event_types=("view",),
        tasks=(TaskSpec("click", True),),
    )


@dataclass(frozen=True)
class Rows:
    """Impressions: row of each field's table and surface, int64 [B]; true probability float64 [B]; label [B]."""

    ids: dict[str, Tensor]
    surface: Tensor
    chance: Tensor
    label: Tensor

    def take(self, kept: Tensor) -> "Rows":
        """The rows of a mask [B]."""
        ids = {name: rows[kept] for name, rows in self.ids.items()}
        return Rows(ids, self.surface[kept], self.chance[kept], self.label[kept])

    def own(self, surface: int) -> "Rows":
        """The rows of one surface, which is surface 0 of its own model."""
        mine = self.take(self.surface == surface)
        return replace(mine, surface=torch.zeros_like(mine.surface))

    def batch(self) -> Batch:
        """What a model takes."""
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
            label=self.label[:, None],
            mask=torch.ones(rows, 1),
            weight=torch.ones(rows, 1),
            impression_id=torch.arange(rows),
            history_row=torch.zeros(rows, dtype=torch.int64),
        )


class World:
    """Effects of each id, and tastes of users for ads; on the second surface of `conflict` ads and tastes turn over."""

    def __init__(self, name: str, seed: int) -> None:
        """The world of that name and seed."""
        draw = torch.Generator().manual_seed(seed)
        self.shares, self.seed = torch.tensor(WORLDS[name]), seed
        self.taste = 0.6 * torch.randn(FIELDS["user"], RANK, generator=draw)
        self.style = torch.randn(FIELDS["ad"], RANK, generator=draw)
        self.effect = {field: 0.5 * torch.randn(values, generator=draw) for field, values in FIELDS.items()}
        self.turn = torch.tensor([1.0, -1.0 if name == "conflict" else 1.0])

    def sample(self, rows: int, part: int) -> Rows:
        """Fresh impressions; of equal parts, the same ones."""
        draw = torch.Generator().manual_seed(1_000_000 * (self.seed + 1) + part)
        ids = {name: torch.randint(0, values, (rows,), generator=draw) for name, values in FIELDS.items()}
        surface = torch.multinomial(self.shares, rows, replacement=True, generator=draw)
        turned = (self.taste[ids["user"]] * self.style[ids["ad"]]).sum(1) + self.effect["ad"][ids["ad"]]
        kept = self.effect["user"][ids["user"]] + self.effect["page"][ids["page"]]
        chance = (LEVEL + kept + self.turn[surface] * turned).double().sigmoid()
        label = (torch.rand(rows, generator=draw, dtype=torch.float64) < chance).float()
        return Rows({name: value + 1 for name, value in ids.items()}, surface, chance, label)


def recipe(arm: str, rate: float = RATES[2]) -> Recipe:
    """Sizes and settings of an arm."""
    made = Recipe(name="experts", model=MODEL, batch_size=BATCH, table_lr=0.1, dense_lr=rate)
    shared, own = ARMS[arm]
    return made.derive({"model": {"domain_experts": shared, "surface_experts": own}})


def train(surfaces: tuple[str, ...], settings: Recipe, rows_of: Callable[[int, int], Rows], steps: int) -> Trainee:
    """A model from cold, as the walk does it; `rows_of` gives the rows of a part of the stream."""
    trainee = build(schema(surfaces), settings, 0, Compute.alone())
    rate = float(rows_of(FIRST_ROWS, 0).label.mean())
    trainee.start_at({"click": rate})
    for step in range(steps):
        train_step(trainee, rows_of(BATCH, 1 + step).batch(), f"step {step}")
    return trainee


@torch.no_grad()
def judge(trainee: Trainee, rows: Rows) -> float:
    """NE of one surface's rows, expected over labels."""
    trainee.model.eval()
    found = trainee.model(rows.batch()).double().sigmoid()[:, 0]
    return entropies(found, rows.chance, torch.ones_like(rows.chance))


def outcome(world: World, arm: str, rate: float, *, steps: int, judged: Rows) -> list[float]:
    """NE of an arm by surface."""
    settings = recipe(arm, rate)
    if arm != "separate":
        trainee = train(SURFACES, settings, world.sample, steps)
        return [judge(trainee, judged.take(judged.surface == at)) for at in range(len(SURFACES))]
    found = []
    for at, name in enumerate(SURFACES):
        model = train((name,), settings, partial(_own, world, at), steps)
        found.append(judge(model, judged.own(at)))
    return found


def _own(world: World, surface: int, rows: int, part: int) -> Rows:
    return world.sample(rows, part).own(surface)


def best_rates(name: str, *, steps: int, rows: int) -> dict[str, tuple[float, ...]]:
    """Each arm's learning rate by surface: of the lowest NE over the tuning seeds.

    An arm of one model takes one rate, by the mean over its surfaces.
    """
    chosen = {}
    for arm in ARMS:
        tried = np.zeros((len(RATES), len(SURFACES)))
        for at, rate in enumerate(RATES):
            for seed in TUNING_SEEDS:
                world = World(name, seed)
                tried[at] += outcome(world, arm, rate, steps=steps, judged=world.sample(rows, 999_999))
        best = tried.argmin(0) if arm == "separate" else tried.mean(1, keepdims=True).argmin(0).repeat(len(SURFACES))
        chosen[arm] = tuple(RATES[place] for place in best)
    return chosen


Cells = dict[str, float]
"""NE by world, arm and surface, `transfer_experts_second`; `transfer_truth_second` is what nothing beats."""


def figures(chosen: Mapping[str, Mapping[str, tuple[float, ...]]], *, steps: int, rows: int, seed: int) -> Cells:
    """All worlds and arms of one seed."""
    found: Cells = {}
    for name, rates in chosen.items():
        world = World(name, seed)
        judged = world.sample(rows, 999_999)
        for at, surface in enumerate(SURFACES):
            part = judged.own(at)
            found[f"{name}_truth_{surface}"] = entropies(part.chance, part.chance, torch.ones_like(part.chance))
        for arm in ARMS:
            given = {r: outcome(world, arm, r, steps=steps, judged=judged) for r in sorted(set(rates[arm]))}
            for at, surface in enumerate(SURFACES):
                found[f"{name}_{arm}_{surface}"] = given[rates[arm][at]][at]
    return found


def ratios(by_seed: Sequence[Cells]) -> dict[str, list[float]]:
    """By world, control and surface: NE of experts over the control's, one a seed."""
    return {
        f"{name}_over_{control}_{surface}": [
            one[f"{name}_experts_{surface}"] / one[f"{name}_{control}_{surface}"] for one in by_seed
        ]
        for name in WORLDS
        for control in ("shared", "separate")
        for surface in SURFACES
    }


JUDGED = ("conflict_over_shared_first", "conflict_over_shared_second", "transfer_over_separate_second")
"""Below 1: experts are better."""
WORST = "worst_over_separate"
"""Of all worlds and surfaces; at most 1: no surface is worse than its own model."""


def exact(by_seed: Sequence[Cells]) -> bool:
    """Whether the standard error of every judged ratio is at most a third of its distance from 1."""
    found = ratios(by_seed)
    own = [name for name in found if "_over_separate_" in name]
    worst = max(own, key=lambda name: mean(found[name]))
    return all(3 * stats.sem(found[name]) <= abs(mean(found[name]) - 1) for name in (*JUDGED, worst))


def run(quick: bool) -> Result:
    """Train all arms.

    Args:
        quick: two seeds, few steps and one learning rate, without bars.
    """
    torch.set_num_threads(1)  # the matrices are too small for two
    fewest, most, steps, rows = (2, 2, 20, 20_000) if quick else (FEWEST, MOST, STEPS, 100_000)
    given = dict.fromkeys(ARMS, (RATES[2],) * len(SURFACES))
    with deterministic():
        chosen = {name: given if quick else best_rates(name, steps=steps, rows=rows) for name in WORLDS}
        by_seed: list[Cells] = []
        while len(by_seed) < fewest or (len(by_seed) < most and not exact(by_seed)):
            by_seed.append(figures(chosen, steps=steps, rows=rows, seed=len(by_seed)))
        cost = flops()
    found = {name: paired_interval(values, CONFIDENCE) for name, values in ratios(by_seed).items()}
    own = [value for name, value in found.items() if "_over_separate_" in name]
    worst = max(value for value, _ in own), (max(low for _, (low, _) in own), max(high for _, (_, high) in own))
    judged = {name: found[name] for name in JUDGED} | {WORST: worst}
    bars: dict[str, Bar] = dict.fromkeys(judged, ("<=", 1.0))
    return Result(
        figures={name: value for name, (value, _) in judged.items()},
        controls={name: value for name, (value, _) in found.items() if name not in judged}
        | {f"ne_{name}": mean(one[name] for one in by_seed) for name in by_seed[0]},
        intervals={name: interval for name, (_, interval) in (found | judged).items()},
        bars={} if quick else bars,
        seeds=len(by_seed),
        notes={
            "steps": steps,
            "rows_a_step": BATCH,
            "judged_rows": rows,
            "confidence": CONFIDENCE,
            "learning_rates": chosen,
            "flops_an_example": cost,
        },
    )


def flops() -> dict[str, int]:
    """Of a forward pass, by arm, an example."""
    rows = World("alike", 0).sample(64, 0)
    found = {}
    for arm in ARMS:
        one = arm == "separate"
        trainee = build(schema(SURFACES[:1] if one else SURFACES), recipe(arm), 0, Compute.alone())
        seen = replace(rows, surface=torch.zeros_like(rows.surface)) if one else rows
        found[arm] = count(trainee.model, seen.batch()) // len(rows.surface)
    return found
