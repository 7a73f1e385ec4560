"""Calibration and NE of mixes that train on half the rows and fewer, against true probabilities.

Four planted surfaces of unequal size and base rate, in one stream of days. Rows are viewed (a task that is not
primary), viewed ones are clicked (primary), so views among kept rows are far from views among all. Ingest keeps half of
the largest surface's negatives on the first days and .8 of them later. Each arm sees the same rows in the same order,
takes the best of the same learning rates, and trains by `training.mixing` and the model's own loss; the mixes have
fewer rows and so fewer steps. Controls: all rows; and a mix that is trained on with ingest's rates and weights.

Everything is expected over labels: the predictions on fresh rows are compared with the probabilities that were planted.
Labels are drawn systematically (floor(C_i + U) - floor(C_{i-1} + U) over running sums C of probabilities, Madow
1949): each has exactly its probability, while a surface's count hardly varies.

Margin of non-inferiority, fixed before the first run: .2 % of NE.
"""

from dataclasses import dataclass, replace
from statistics import mean
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from benchmarks.planted import paired_interval
from benchmarks.result import Bar, Result
from features.transform import sampling
from features.transform.batch import Labels
from features.transform.columns import Column
from features.transform.schema import FeatureSchema, History, TaskSpec
from models.gem.loss import gem_loss
from training.metrics import entropy
from training.mixing import Mixing, mixed
from training.reader import Rows

SHARES = {"feed": 0.55, "story": 0.25, "search": 0.12, "mail": 0.08}
BASES = {"feed": -3.0, "story": -2.3, "search": -1.2, "mail": -1.8}
"""Logit of a click on a viewed row; about 1 to 5 % of all rows are clicked."""
TASKS = ("click", "view")
SCHEMA = FeatureSchema((), (), History(), {}, tuple(SHARES), (), (TaskSpec("click", primary=True), TaskSpec("view")))
USERS, ADS, CONTEXTS, DIM, DAYS = 40, 40, 4, 2, 4
BATCH, RATES = 256, (0.01, 0.02, 0.04)
HALF = "half_flattened"
"""The mix that is asked for equal NE."""
MIXES = {
    "half": Mixing(budget=0.45),
    HALF: Mixing(tau=0.5, budget=0.45),
    "half_even": Mixing(tau=0.0, budget=0.45),
    "fifth_flattened": Mixing(tau=0.5, budget=0.2),
    "half_few_views": Mixing(tau=0.8, budget=0.45, tasks={"view": 0.3}),
}
MARGIN = 0.002


@dataclass(frozen=True)
class World:
    """Planted effects of ids; logits of view and of click on a viewed row are sums and one product of them."""

    user: np.ndarray
    ad: np.ndarray
    context: np.ndarray
    taste: np.ndarray
    style: np.ndarray

    @classmethod
    def of(cls, seed: int) -> "World":
        """Effects of a seed: user and ad [ids, 2], context [surfaces, contexts, 2], taste and style [ids, d]."""
        rng = np.random.default_rng([7, seed])
        sizes = ((USERS, 2), (ADS, 2), (len(SHARES), CONTEXTS, 2), (USERS, DIM), (ADS, DIM))
        return cls(*(rng.normal(0, scale, size) for scale, size in zip((0.5, 0.5, 0.4, 0.6, 0.6), sizes, strict=True)))

    def chances(self, ids: np.ndarray) -> np.ndarray:
        """True probabilities of click and view, [N, 2], of ids [N, 4]: surface, user, ad, context."""
        surface, user, ad, context = ids.T
        logit = self.user[user] + self.ad[ad] + self.context[surface, context]
        logit[:, 0] += np.array(list(BASES.values()))[surface] + (self.taste[user] * self.style[ad]).sum(1)
        logit[:, 1] -= 0.8
        click, view = (1 / (1 + np.exp(-logit))).T
        return np.stack([click * view, view], axis=1)


def drawn(rng: np.random.Generator, chance: np.ndarray, surface: np.ndarray) -> np.ndarray:
    """0/1 labels [N] with these probabilities, spread evenly over the rows of each surface."""
    label = np.zeros(len(chance))
    for place in range(len(SHARES)):
        mine = np.flatnonzero(surface == place)
        label[mine] = np.diff(np.floor(np.cumsum(chance[mine]) + rng.random()), prepend=0.0)
    return label


def ids_of(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Surface, user, ad and context of fresh rows, [N, 4]."""
    surface = rng.choice(len(SHARES), rows, p=list(SHARES.values()))
    return np.stack([surface, *(rng.integers(0, size, rows) for size in (USERS, ADS, CONTEXTS))], axis=1)


def days_of(world: World, seed: int, rows: int) -> list[Rows]:
    """The log after ingest's sampling: a day's rows have their labels at once."""
    rng, found = np.random.default_rng([11, seed]), []
    for day in range(DAYS):
        ids = ids_of(rng, rows // DAYS)
        chance = world.chances(ids)
        view = drawn(rng, chance[:, 1], ids[:, 0])
        click = drawn(rng, view * chance[:, 0] / chance[:, 1], ids[:, 0])
        rate = np.where(ids[:, 0] == 0, 0.5 if day < DAYS // 2 else 0.8, 1.0)
        number = rng.integers(0, 2**62, len(ids))
        label = np.stack([click, view], axis=1).astype(np.float32)
        weight = np.where(click > 0, 1.0, 1 / rate).astype(np.float32)[:, None].repeat(2, axis=1)
        names = np.array(list(SHARES), dtype=object)[ids[:, 0]]
        columns = {"impression_id": number, "surface": names, "keep_rate": rate}
        columns |= {name: ids[:, place] for place, name in enumerate(("place", "user", "ad", "context"))}
        held = {name: Column(values, np.zeros(len(ids), dtype=bool)) for name, values in columns.items()}
        shown = Rows(held, np.full(len(ids), day), Labels(label, np.ones_like(label), weight))
        found.append(shown.take(np.flatnonzero(sampling.kept(number, rate) | (click > 0))))
    return found


class Net(nn.Module):
    """Sums of effects and one product for each task: it can hold the truth; ids [B, 4] -> logits [B, 2]."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (len(SHARES), USERS, ADS, len(SHARES) * CONTEXTS)
        self.effects = nn.ParameterList(torch.zeros(size, 2) for size in sizes)
        self.taste, self.style = (nn.Parameter(torch.randn(size, 2, DIM) * 0.1) for size in (USERS, ADS))

    def forward(self, ids: Tensor) -> Tensor:
        """See the class."""
        surface, user, ad, context = ids.unbind(1)
        places = (surface, user, ad, surface * CONTEXTS + context)
        effects = sum(table[place] for table, place in zip(self.effects, places, strict=True))
        logits: Tensor = effects + (self.taste[user] * self.style[ad]).sum(-1)
        return logits

    @torch.no_grad()
    def start_at(self, first: Rows) -> None:
        """Start at the base rates of a day's labels, as a walk does."""
        assert first.labels is not None
        label, _, weight = first.labels
        rate = torch.from_numpy((weight * label).sum(0) / weight.sum(0))
        self.effects[0] += rate.logit()


def trained(days: list[Rows], mixing: Mixing, rate: float, seed: int, corrected: bool = True) -> tuple[Net, int]:
    """One pass over the days; the net averaged over the last fifth of its steps, and the rows it was trained on."""
    torch.manual_seed(seed)
    net = Net()
    net.start_at(days[0])
    learned = [mixed(day, day, SCHEMA, mixing)[0] for day in days]
    if not corrected:
        learned = [_uncorrected(day, rows) for day, rows in zip(days, learned, strict=True)]
    steps = sum(-(-len(rows) // BATCH) for rows in learned)
    adam = torch.optim.Adam(net.parameters(), lr=rate, betas=(0.9, 0.99))
    falling = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.01, steps)
    average, step = AveragedModel(net), 0
    for rows in learned:
        assert rows.labels is not None
        label, mask, weight = (torch.from_numpy(part) for part in rows.labels)
        keep_rate = torch.from_numpy(rows.columns["keep_rate"].values.astype(np.float32))
        ids = _ids(rows)
        for start in range(0, len(rows), BATCH):
            part = slice(start, start + BATCH)
            batch: Any = SimpleNamespace(
                label=label[part], mask=mask[part], weight=weight[part], keep_rate=keep_rate[part]
            )
            loss = gem_loss(net(ids[part]), batch, SCHEMA).total()
            adam.zero_grad()
            loss.backward()
            adam.step()
            falling.step()
            step += 1
            if step > 4 * steps // 5:
                average.update_parameters(net)
    averaged: Any = average.module
    return averaged, sum(len(rows) for rows in learned)


def _uncorrected(day: Rows, rows: Rows) -> Rows:
    """Thinned rows with what ingest said of them."""
    order = np.argsort(day.impression_id)
    same = day.take(order[np.searchsorted(day.impression_id, rows.impression_id, sorter=order)])
    assert rows.labels is not None and same.labels is not None
    return replace(rows, columns=same.columns, labels=rows.labels._replace(weight=same.labels.weight))


def _ids(rows: Rows) -> Tensor:
    return torch.from_numpy(np.stack([rows.columns[name].values for name in ("place", "user", "ad", "context")], 1))


@torch.no_grad()
def judged(net: Net, world: World, seed: int, rows: int) -> dict[str, float]:
    """Over fresh rows, expected over labels: by task and surface calibration, NE; `ne_click` and `ne_view` over all."""
    ids = ids_of(np.random.default_rng([13, seed]), rows)
    truth = world.chances(ids)
    given = net(torch.from_numpy(ids)).double().sigmoid().numpy()
    loss = -(truth * np.log(given) + (1 - truth) * np.log1p(-given))
    found = {}
    for column, task in enumerate(TASKS):
        for name, part in {"all": ids[:, 0] >= 0, **{k: ids[:, 0] == n for n, k in enumerate(SHARES)}}.items():
            chance = truth[part, column].mean()
            found[f"ne_{task}_{name}"] = float(loss[part, column].mean() / entropy(chance))
            found[f"calibration_{task}_{name}"] = float(given[part, column].mean() / chance)
    return found


Arms = dict[str, tuple[Mixing, bool]]
ARMS: Arms = {
    "all": (Mixing(), True),
    **{name: (mix, True) for name, mix in MIXES.items()},
    "uncorrected": (MIXES[HALF], False),
}


def best_rates(rows: int, fresh: int) -> dict[str, float]:
    """Each arm's learning rate of the lowest NE of clicks, on a seed of its own."""
    world = World.of(-1 % 1000)
    days, found = days_of(world, 999, rows), {}
    for name, (mix, corrected) in ARMS.items():
        tried = {r: judged(trained(days, mix, r, 999, corrected)[0], world, 999, fresh)["ne_click_all"] for r in RATES}
        found[name] = min(tried, key=lambda rate: tried[rate])
    return found


def run(quick: bool) -> Result:
    """Train all arms.

    Args:
        quick: two seeds, few rows and one learning rate, without bars.
    """
    torch.set_num_threads(1)  # the steps are too small for two
    seeds, rows, fresh = (2, 100_000, 50_000) if quick else (16, 1_000_000, 400_000)
    rates = dict.fromkeys(ARMS, RATES[1]) if quick else best_rates(rows, fresh)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ARMS}
    share: dict[str, list[float]] = {name: [] for name in ARMS}
    for seed in range(seeds):
        world = World.of(seed)
        days = days_of(world, seed, rows)
        for name, (mix, corrected) in ARMS.items():
            net, count = trained(days, mix, rates[name], seed, corrected)
            found[name].append(judged(net, world, seed, fresh))
            share[name].append(count / sum(len(day) for day in days))
    figures, controls, intervals = _figures(found)
    figures |= {f"rows_{name}": mean(share[name]) for name in MIXES}
    bars: dict[str, Bar] = {
        "calibration_off_worst": ("<=", 0.01),
        "ne_lost": ("<=", MARGIN),
        f"rows_{HALF}": ("<=", 0.5),
        "uncorrected_off_least": (">=", 0.1),
    }
    notes = {"rows": rows, "fresh": fresh, "learning_rates": rates, "margin": MARGIN, "mixes": _told()}
    return Result(figures, controls, intervals, {} if quick else bars, seeds, notes)


def _figures(
    found: dict[str, list[dict[str, float]]],
) -> tuple[dict[str, float], dict[str, float], dict[str, tuple[float, float]]]:
    """Worst calibration over mixes, surfaces and tasks with the farthest end of any interval; NE lost to all rows."""
    cells = [f"calibration_{task}_{name}" for task in TASKS for name in SHARES]
    off = {name: [paired_interval([one[cell] - 1 for one in found[name]]) for cell in cells] for name in ARMS}
    figures, intervals = {}, {}
    for name in MIXES:
        figures[f"calibration_off_{name}"] = max(abs(value) for value, _ in off[name])
        intervals[f"calibration_off_{name}"] = (0.0, max(abs(end) for _, ends in off[name] for end in ends))
        lost = [a["ne_click_all"] / b["ne_click_all"] - 1 for a, b in zip(found[name], found["all"], strict=True)]
        figures[f"ne_lost_{name}"], intervals[f"ne_lost_{name}"] = paired_interval(lost)
    worst = max(MIXES, key=lambda name: intervals[f"calibration_off_{name}"][1])
    figures["calibration_off_worst"] = max(figures[f"calibration_off_{name}"] for name in MIXES)
    intervals["calibration_off_worst"] = intervals[f"calibration_off_{worst}"]
    figures["ne_lost"], intervals["ne_lost"] = figures[f"ne_lost_{HALF}"], intervals[f"ne_lost_{HALF}"]
    figures["uncorrected_off_least"] = min(abs(value) for value, _ in off["uncorrected"])
    controls = {
        f"{name}_{metric}": mean(one[metric] for one in found[name])
        for name in ("all", HALF, "uncorrected")
        for metric in found[name][0]
    }
    return figures, controls, intervals


def _told() -> dict[str, dict[str, Any]]:
    return {name: {"tau": mix.tau, "budget": mix.budget, "tasks": dict(mix.tasks)} for name, mix in MIXES.items()}
