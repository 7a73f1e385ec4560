"""One merged sequence of all event types against a tower a type, on identical rows: time of a step, and quality.

The log is planted and has five types as unevenly as a real one. A user's interest in a category moves on now and then,
and a cart that no purchase followed is open: what comes next depends on which of two types came last. Labels are drawn
from the current interest, an open cart, and both. Arms are `gem_small` with short blocks, which the few events of a
rare type do not have to pad. Towers have padding and summary tokens of their own, so they cost more; a third arm spends
as many FLOPs on the merged sequence, in layers and summary tokens, and quality is reported of both.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.arms import costs
from benchmarks.planted import paired_interval
from benchmarks.result import Bar, Result
from features.transform.batch import Batch
from features.transform.schema import Categorical, Dense, FeatureSchema, History, HistoryField, TaskSpec
from training import metrics
from training.compute import Compute
from training.loop import Trainee, build, train_step
from training.recipes import Recipe, recipe

MERGED, TOWERS, EQUAL = "merged", "towers", "merged_equal_flops"
SIZES: dict[str, Any] = {
    "model.history_length": 300,
    "model.attention_block": 64,
    "model.matching_hidden": 64,
    "model.dense_hidden": 64,
    "model.wukong_fm_tokens": 8,
    "model.wukong_linear_tokens": 8,
    "model.head_hidden": [128, 64],
}
"""What all arms change in `gem_small`."""
SPENT = SIZES | {"model.layers": 6, "model.seeds": 24, "model.summary_tokens": 12}
"""What makes a merged sequence as dear as towers."""
TYPES = ("view", "search", "click", "cart", "purchase")
SHARES = (0.5, 0.2, 0.19, 0.07, 0.04)
CART, PURCHASE = (1 + TYPES.index(name) for name in ("cart", "purchase"))
CATEGORIES, ADS_EACH = 40, 20
ADS = CATEGORIES * ADS_EACH
STAYS = 30
"""Events for which an interest lasts on average."""
REQUESTS, CANDIDATES = 28, 18
SEEDS = (1, 2, 3, 4)
STEPS, JUDGED = 150, 60
SCHEMA = FeatureSchema(
    categorical=(Categorical("ad_id", "ad"), Categorical("category", "category")),
    dense=(Dense("ad_events_7d", "count"),),
    history=History((HistoryField("ad_id", "ad", "ad_id"), HistoryField("category", "category", "category"))),
    tables={"ad": 1 + ADS, "category": 1 + CATEGORIES},
    surfaces=("feed",),
    event_types=TYPES,
    tasks=(TaskSpec("click", True),),
)


def ads_of(category: Tensor, generator: torch.Generator) -> Tensor:
    """A random ad of each category, counted from 1."""
    return category * ADS_EACH + torch.randint(ADS_EACH, category.shape, generator=generator) + 1


def mixed(interest: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """The interest with this probability, else any category."""
    other = torch.randint(CATEGORIES, interest.shape, generator=generator)
    return torch.where(torch.rand(interest.shape, generator=generator) < share, interest, other)


def history(events: int, generator: torch.Generator) -> tuple[Tensor, Tensor, int]:
    """Interests and types of one user's events, oldest first, and the interest at the request."""
    moves = torch.rand(events + 1, generator=generator) < 1 / STAYS
    path = torch.randint(CATEGORIES, (events + 2,), generator=generator)[moves.cumsum(0)]
    kind = 1 + torch.multinomial(torch.tensor(SHARES), events, replacement=True, generator=generator)
    return path[:-1], kind, int(path[-1])


def is_open(kind: Tensor) -> bool:
    """Whether the newest cart came after the newest purchase."""
    last = [int(torch.nonzero(kind == one).max()) if (kind == one).any() else -1 for one in (CART, PURCHASE)]
    return last[0] > last[1]


def sample(generator: torch.Generator, longest: int) -> Batch:
    """Fresh requests with their labels."""
    lengths = torch.randint(longest // 3, longest + 1, (REQUESTS,), generator=generator)
    users = [history(int(events), generator) for events in lengths]
    row = torch.arange(REQUESTS).repeat_interleave(CANDIDATES)
    now = torch.tensor([interest for _, _, interest in users])[row]
    cart = torch.tensor([float(is_open(kind)) for _, kind, _ in users])[row]
    shown = mixed(now, 0.4, generator)
    wanted = (shown == now).float()
    logit = -3.0 + 1.5 * wanted + 0.8 * cart + 1.2 * wanted * cart
    label = (torch.rand(len(row), generator=generator) < logit.sigmoid()).float()[:, None]
    seen = torch.cat([mixed(interests, 0.6, generator) for interests, _, _ in users])
    ages = [torch.rand(int(events), generator=generator).cumsum(0).flip(0) * 21_600 + 60 for events in lengths]
    ones = torch.ones(len(row))
    return Batch(
        categorical={"ad_id": ads_of(shown, generator), "category": 1 + shown},
        dense=torch.zeros(len(row), SCHEMA.dense_width),
        history_lengths=lengths,
        history={"ad_id": ads_of(seen, generator), "category": 1 + seen},
        history_age=torch.cat(ages),
        history_type=torch.cat([kind for _, kind, _ in users]),
        history_span=torch.stack([age[0] for age in ages]),
        surface=torch.zeros(len(row), dtype=torch.int64),
        keep_rate=ones,
        label=label,
        mask=torch.ones_like(label),
        weight=torch.ones_like(label),
        impression_id=torch.arange(len(row)),
        history_row=row,
    )


@torch.no_grad()
def quality(trainee: Trainee, batches: int, longest: int, seed: int) -> tuple[float, float]:
    """AUC and log-loss on fresh requests; of equal seeds, on the same ones."""
    generator = torch.Generator().manual_seed(seed)
    trainee.model.eval()
    parts = []
    for _ in range(batches):
        batch = sample(generator, longest)
        parts.append((trainee.model(batch)[:, 0].double().sigmoid().numpy(), batch.label[:, 0].numpy()))
    prediction, label = (np.concatenate(part) for part in zip(*parts, strict=True))
    found = metrics.Sample.of(label, prediction)
    auc = metrics.auc(found).number
    assert auc is not None
    return auc, float(found.losses().mean())


def trained(settings: Recipe, steps: int, longest: int, seed: int) -> Trainee:
    """A model after so many fresh batches; arms of one seed see the same."""
    generator = torch.Generator().manual_seed(1_000 + seed)
    trainee = build(SCHEMA, settings, seed, Compute.alone())
    for step in range(steps):
        train_step(trainee, sample(generator, longest), f"step {step}")
    return trainee


def arms() -> dict[str, Recipe]:
    """The recipe with a merged sequence, with towers, and merged with the FLOPs of towers."""
    return {
        MERGED: recipe("gem_small", SIZES),
        TOWERS: recipe("gem_small_towers", SIZES),
        EQUAL: recipe("gem_small", SPENT),
    }


def judged(recipes: dict[str, Recipe], longest: int) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Gains in AUC over towers, and losses beyond theirs, with intervals over paired seeds."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in recipes}
    for seed in SEEDS:
        for name, settings in recipes.items():
            found[name].append(quality(trained(settings, STEPS, longest, seed), JUDGED, longest, 5_000 + seed))
    figures, intervals = {}, {}
    for name in (MERGED, EQUAL):
        pairs = list(zip(found[name], found[TOWERS], strict=True))
        for place, what in enumerate(("auc_gain", "log_loss_more")):
            key = f"{what}_{name}"
            figures[key], intervals[key] = paired_interval([own[place] - other[place] for own, other in pairs])
    return figures, intervals


def run(quick: bool) -> Result:
    """Time all, then train and judge all.

    Args:
        quick: fewer turns, no training.
    """
    recipes = arms()
    longest = recipes[MERGED].model.history_length
    batch = sample(torch.Generator().manual_seed(0), longest)
    found = costs(recipes, SCHEMA, batch, turns=5 if quick else 15)
    one, towers = found[MERGED], found[TOWERS]
    figures = {"step_ratio": one.step / towers.step, "forward_ratio": one.forward / towers.forward}
    controls = {f"{name}_{what}": value for name, cost in found.items() for what, value in cost._asdict().items()}
    controls |= {f"{name}_flops_ratio": found[name].flops / towers.flops for name in (MERGED, EQUAL)}
    notes = {"types": dict(zip(TYPES, SHARES, strict=True)), "longest": longest, "rows": len(batch), "threads": 1}
    bars: dict[str, Bar] = {"step_ratio": ("<=", 0.8)}
    if quick:
        return Result(figures, controls, bars=bars, notes=notes)
    quality_of, intervals = judged(recipes, longest)
    return Result(figures | quality_of, controls, intervals, bars, len(SEEDS), notes | {"steps": STEPS})
