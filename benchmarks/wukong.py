"""Wukong's order, cost and skips on a planted cross of four fields.

Claim: a layer of factorisation machine and linear part holds crosses of two fields, two layers of four. That is a
statement about polynomials, so it is tested on the layer without norms and with a linear FM block; one layer gets more
parameters and FLOPs than two. Layers as they are used are shown beside it: their norms and MLPs multiply too, so there
one layer alone can learn the cross. Controls: the AUC of the best function of two fields, of the true chances, and
the same world without the plant.
"""

from collections.abc import Callable
from statistics import mean

import torch
from torch import Tensor, nn

from benchmarks.planted import Sample, fit, judge, paired_interval
from benchmarks.result import Bar, Result
from models.layers.wukong import WukongLayer, low_rank_fm
from training.flops import count

FIELDS, VALUES, DIM, CROSSES = 8, 4, 16, 2
ROWS, RATE = 256, 1e-2


class PolynomialLayer(WukongLayer):
    """[FM(X); LCB(X)] + R(X): the layer without its norms, of second degree in X."""

    def forward(self, x_BND: Tensor) -> Tensor:
        """[B, n, d] -> [B, n_F + n_L, d]."""
        made = self.fm(low_rank_fm(x_BND, self.factors_NK).flatten(1)).unflatten(1, self.shape)
        return torch.cat([made, self.compress @ x_BND], dim=1) + x_BND


class Net(nn.Module):
    """Embeddings, layers, a linear head: ids [B, fields] -> logits [B]."""

    def __init__(self, layers: list[WukongLayer]) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(FIELDS, VALUES, DIM) * 2 * DIM**-0.5)
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(layers[-1].out_tokens * DIM, 1)

    def forward(self, ids: Tensor) -> Tensor:
        """See the class."""
        tokens = self.table[torch.arange(FIELDS), ids]
        logits: Tensor = self.head(self.layers(tokens).flatten(1))
        return logits.squeeze(1)


def net(
    layers: int,
    rank: int,
    *,
    kind: type[WukongLayer] = WukongLayer,
    hidden: tuple[int, ...] = (16,),
    lcb: bool = True,
    skip: bool = True,
) -> Net:
    """As many tokens after each layer as before it."""
    made, kept = (FIELDS // 2, FIELDS // 2) if lcb else (FIELDS, 0)
    return Net(
        [
            kind(tokens=FIELDS, dim=DIM, fm_tokens=made, linear_tokens=kept, rank=rank, hidden=hidden, skip=skip)
            for _ in range(layers)
        ]
    )


ORDER: dict[str, Callable[[], Net]] = {
    "one": lambda: net(1, 9, kind=PolynomialLayer, hidden=()),
    "two": lambda: net(2, 4, kind=PolynomialLayer, hidden=()),
}
AS_USED: dict[str, Callable[[], Net]] = {"one": lambda: net(1, 9, hidden=(32,)), "two": lambda: net(2, 4)}
REMOVAL: dict[str, Callable[[], Net]] = {
    "all": lambda: net(4, 4),
    "no_linear": lambda: net(4, 4, lcb=False),
    "no_skip": lambda: net(4, 4, skip=False),
    "neither": lambda: net(4, 4, lcb=False, skip=False),
}


def parts(ids: Tensor) -> tuple[Tensor, Tensor]:
    """What pairs of fields say and what fours of fields say: logits [B] each."""
    signs = 1.0 - 2.0 * (ids % 2)
    pairs = signs.view(-1, CROSSES, 2, 2).prod(-1)
    sign_of_cross = 1.0 - 2.0 * (torch.arange(CROSSES) % 2)
    return pairs.sum((1, 2)) / CROSSES**0.5, 3.0 * (pairs.prod(-1) * sign_of_cross).sum(1) / CROSSES**0.5


def world(planted: bool) -> Sample:
    """Eight fields of four values; pairs matter in both worlds, fours only in the planted one."""

    def sample(generator: torch.Generator, rows: int) -> tuple[tuple[Tensor, ...], Tensor]:
        ids = torch.randint(0, VALUES, (rows, FIELDS), generator=generator)
        two, four = parts(ids)
        chance = (two + four if planted else two).sigmoid()
        return (ids,), (torch.rand(rows, generator=generator) < chance).float()

    return sample


class Known(nn.Module):
    """The world's own logit: the best function of two fields, or the true one."""

    def __init__(self, fours: bool) -> None:
        super().__init__()
        self.fours = fours

    def forward(self, ids: Tensor) -> Tensor:
        """Ids [B, fields] -> logits [B]."""
        two, four = parts(ids)
        return two + four if self.fours else two


def areas(arms: dict[str, Callable[[], Net]], planted: bool, seeds: int, steps: int) -> dict[str, list[float]]:
    """AUC of each arm by seed, on the same rows."""
    sample, found = world(planted), {name: [0.0] * seeds for name in arms}
    for seed in range(seeds):
        for name, make in arms.items():
            torch.manual_seed(seed)
            model = make()
            fit(model, sample, steps=steps, rows=ROWS, rate=RATE, seed=seed)
            found[name][seed], _ = judge(model, sample, rows=16_384, seed=1000 + seed)
    return found


def ceilings(seeds: int) -> dict[str, float]:
    """AUC of what pairs say, and of the truth, in the planted world."""
    judged = {"pairs": Known(fours=False), "truth": Known(fours=True)}
    areas = {k: [judge(m, world(True), rows=16_384, seed=1000 + s)[0] for s in range(seeds)] for k, m in judged.items()}
    return {name: mean(values) for name, values in areas.items()}


def fm_flops_ratio() -> float:
    """Cost of the factorisation machine on twice as many fields, at equal rank."""
    cost = [count(low_rank_fm, torch.randn(4, n, DIM), torch.randn(n, 8)) for n in (64, 128)]
    return cost[1] / cost[0]


def run(quick: bool) -> Result:
    """Train all arms.

    Args:
        quick: two seeds and few steps, without bars.
    """
    torch.set_num_threads(1)  # the matrices are too small for two
    seeds, steps = (2, 60) if quick else (5, 800)
    order, plain = areas(ORDER, True, seeds, steps), areas(ORDER, False, seeds, steps)
    removal, used = areas(REMOVAL, True, seeds, steps), areas(AS_USED, True, seeds, steps)
    best = ceilings(seeds)
    differences = {
        "two_over_one": [b - a for a, b in zip(order["one"], order["two"], strict=True)],
        "one_over_pairs": [a - best["pairs"] for a in order["one"]],
        "two_below_truth": [best["truth"] - b for b in order["two"]],
        "two_over_one_unplanted": [b - a for a, b in zip(plain["one"], plain["two"], strict=True)],
        "two_over_one_as_used": [b - a for a, b in zip(used["one"], used["two"], strict=True)],
        "lost_without_both": [
            min(a, b) - c for a, b, c in zip(removal["no_linear"], removal["no_skip"], removal["neither"], strict=True)
        ],
    }
    found = {name: paired_interval(values) for name, values in differences.items()}
    bars: dict[str, Bar] = {
        "two_over_one": (">=", 0.1),
        "one_over_pairs": ("<=", 0.02),
        "two_below_truth": ("<=", 0.02),
        "two_over_one_unplanted": ("<=", 0.005),
        "lost_without_both": (">=", 0.05),
        "fm_flops_ratio": ("<=", 2.0),
    }
    arms = {"order": order, "unplanted": plain, "removal": removal, "as_used": used}
    return Result(
        figures={name: value for name, (value, _) in found.items()} | {"fm_flops_ratio": fm_flops_ratio()},
        controls={f"{k}_{name}_auc": mean(v) for k, by in arms.items() for name, v in by.items()}
        | {f"{name}_auc": value for name, value in best.items()},
        intervals={name: interval for name, (_, interval) in found.items()},
        bars={} if quick else bars,
        seeds=seeds,
        notes={"steps": steps, "rows_a_step": ROWS, "sizes": sizes()},
    )


def sizes() -> dict[str, dict[str, int]]:
    """Parameters and FLOPs per example of every arm."""
    ids, found = torch.zeros(1, FIELDS, dtype=torch.long), {}
    for kind, arms in {"order": ORDER, "as_used": AS_USED, "removal": REMOVAL}.items():
        for name, make in arms.items():
            model = make()
            found[f"{kind}_{name}"] = {
                "parameters": sum(p.numel() for p in model.parameters()),
                "flops": count(model, ids),
            }
    return found
