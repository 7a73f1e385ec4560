"""Mixing: fewer rows, and in expectation the very losses of the full log; nothing but primary labels moves a row."""

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.special import expit

from features.transform.columns import Column
from features.transform.hashing import string_id, xxh64_int64
from features.transform.sampling import SALT, kept, uniform
from features.transform.schema import FeatureSchema, History, TaskSpec
from models.gem.loss import gem_loss
from training import mixing
from training.mixing import Mixing, MixingError, mixed, rates_of, sizes_of, thinned
from training.reader import Rows
from training.recipes import Recipe, RecipeError, recipe

CLICK, VIEW, BUY = TaskSpec("click", primary=True), TaskSpec("view"), TaskSpec("buy", parent="click")
Labels = tuple[np.ndarray, np.ndarray, np.ndarray]


def schema_of(*tasks: TaskSpec, surfaces: tuple[str, ...] = ("feed", "story")) -> FeatureSchema:
    return FeatureSchema((), (), History(), {}, surfaces, (), tasks)


def rows_of(ids: np.ndarray, surface: Any, rate: Any, label: np.ndarray, mask: np.ndarray | None = None) -> Rows:
    """Due rows as ingest samples and labels them, of tasks whose first is primary."""
    mask = np.ones_like(label) if mask is None else mask
    rate = np.broadcast_to(np.asarray(rate, dtype=np.float64), len(ids))
    surface = np.broadcast_to(np.asarray(surface, dtype=object), len(ids))
    weight = np.where(label[:, :1] > 0, 1.0, 1.0 / rate[:, None]) * mask
    nothing = np.zeros(len(ids), dtype=bool)
    values = {"impression_id": ids, "surface": surface, "keep_rate": rate}
    columns = {name: Column(np.array(value), nothing) for name, value in values.items()}
    labels = (np.asarray(part, dtype=np.float32) for part in (label * mask, mask, weight))
    rows = Rows(columns, np.full(len(ids), 738_000), mixing.Labels(*labels))
    return rows.take(np.flatnonzero(mixing.kept(ids, rate) | (label[:, 0] > 0)))


def losses_of(rows: Rows, schema: FeatureSchema, logits: torch.Tensor) -> Any:
    assert rows.labels is not None
    label, mask, weight = (torch.from_numpy(np.array(part, dtype=np.float64)) for part in rows.labels)
    rate = torch.from_numpy(np.array(rows.columns["keep_rate"].values))
    batch: Any = SimpleNamespace(label=label, mask=mask, weight=weight, keep_rate=rate)
    return gem_loss(logits.expand(len(rows), -1), batch, schema)


@pytest.fixture
def grid(monkeypatch: pytest.MonkeyPatch) -> int:
    """Impression ids walk through [0, 1) in 40 equal steps, so counting over ids is an expectation over hashes."""
    steps = 40

    def number(ids: np.ndarray, salt: str = SALT) -> np.ndarray:
        return (np.asarray(ids) // (steps if salt != SALT else 1) % steps + 0.5) / steps

    monkeypatch.setattr(mixing, "uniform", number)
    monkeypatch.setattr(mixing, "kept", lambda ids, rates: number(ids) < rates)
    return steps


def enumerated(steps: int, cell: list[tuple[float, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """Every label combination of a cell beside every pair of numbers: ids [N], labels [N, T]."""
    ids = np.tile(np.arange(steps * steps), len(cell))
    return ids, np.repeat(np.array(cell), steps * steps, axis=0)


# click, view: half are viewed, three of four clicks are viewed
CELL = [(1.0, 1.0)] * 3 + [(1.0, 0.0)] + [(0.0, 1.0)] * 7 + [(0.0, 0.0)] * 9


@pytest.mark.parametrize("rate", [1.0, 0.5])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("apart", [False, True])
def test_expected_gradients_are_those_of_the_full_log(grid: int, rate: float, share: float, apart: bool) -> None:
    """Also where the tasks' labels are due on different days, which thin at different rates."""
    schema, asked = schema_of(CLICK, VIEW), Mixing(budget=0.5, tasks={"view": 0.25})
    ids, label = enumerated(grid, CELL)
    logits = torch.tensor([np.log(4 / 16), 0.3], dtype=torch.float64, requires_grad=True)
    whole = losses_of(rows_of(ids, "feed", 1.0, label), schema, logits).loss_sum[1]
    masks = [np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])] if apart else [np.ones((1, 2))]
    shares = (share, 0.7) if apart else (share,)
    sums, trained = torch.zeros(2, dtype=torch.float64), 0
    for mask, own in zip(masks, shares, strict=True):
        due = rows_of(ids, "feed", rate, label, np.repeat(mask, len(ids), axis=0))
        got = thinned(due, schema, asked, {"feed": own})
        sums, trained = sums + losses_of(got, schema, logits).loss_sum, trained + len(got)
    gradient = torch.autograd.grad(sums.sum(), logits)[0]
    # primary: the full log's logit is where the expected gradient vanishes; others: loss and gradient are the same
    assert abs(float(gradient[0])) < 1e-6 * len(ids)
    assert float(sums[1].detach()) == pytest.approx(float(whole.detach()), rel=1e-6)
    assert float(gradient[1]) == pytest.approx(float(torch.autograd.grad(whole, logits)[0][1]), rel=1e-6)
    assert trained < len(ids) or share == rate == 1
    # the control: the stored keep rate, or the stored weights, would not do
    if share < 1 and not apart:
        stored = losses_of(wrongly(got, rate), schema, logits).loss_sum
        assert abs(float(torch.autograd.grad(stored[0], logits, retain_graph=True)[0][0])) > 1e-2 * trained
        assert float(stored[1].detach()) != pytest.approx(float(whole.detach()), rel=0.1)


def wrongly(rows: Rows, rate: float) -> Rows:
    """The same rows as if they had been sampled by ingest alone."""
    assert rows.labels is not None
    columns = {**rows.columns, "keep_rate": Column(np.full(len(rows), rate), np.zeros(len(rows), dtype=bool))}
    return Rows(columns, rows.day, rows.labels._replace(weight=np.minimum(rows.labels.weight, 1 / rate)))


def test_every_one_of_several_primary_tasks_is_exact(grid: int) -> None:
    """A row that another task's positive brought in would be a negative too many."""
    schema = schema_of(CLICK, TaskSpec("like", primary=True))
    ids, label = enumerated(grid, [(1.0, 0.0)] * 4 + [(0.0, 1.0)] * 2 + [(1.0, 1.0)] + [(0.0, 0.0)] * 13)
    logits = torch.tensor([np.log(5 / 15), np.log(3 / 17)], dtype=torch.float64, requires_grad=True)
    got = thinned(rows_of(ids, "feed", 1.0, label), schema, Mixing(budget=0.5), {"feed": 0.2})
    gradient = torch.autograd.grad(losses_of(got, schema, logits).loss_sum.sum(), logits)[0]
    assert gradient.abs().max() < 1e-6 * len(ids)


def test_a_task_below_the_primary_keeps_all_its_pairs() -> None:
    schema = schema_of(CLICK, VIEW, BUY)
    ids = np.arange(2000)
    click = (ids % 10 == 0).astype(float)
    label = np.stack([click, ids % 2, click * (ids % 20 == 0)], axis=1)
    # buy falls due alone, days after the click
    late = np.stack([np.zeros(2000), np.zeros(2000), click], axis=1)
    due = rows_of(ids, "feed", 1.0, label, late)
    got = thinned(due.take(np.flatnonzero(late[:, 2])), schema, Mixing(budget=0.1), {"feed": 0.1})
    assert len(got) == 200 and set(got.labels.weight[:, 2]) == {1.0}


def test_smaller_rates_keep_a_part_of_what_larger_ones_keep() -> None:
    schema = schema_of(CLICK, VIEW)
    ids = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 5000)
    due = rows_of(ids, "feed", 0.5, np.stack([ids % 20 == 0, ids % 3 == 0], axis=1).astype(float))
    found = [set(ids)]
    for share in (1.0, 0.6, 0.3, 0.1):
        got = thinned(due, schema, Mixing(budget=0.5), {"feed": share})
        assert set(got.impression_id) <= found[-1]
        np.testing.assert_allclose(got.columns["keep_rate"].values, 0.5 * share)
        negative = got.labels.label[:, 0] == 0
        expected = len(ids) * 0.95 * 0.5 * share
        assert abs(negative.sum() - expected) < 5 * np.sqrt(expected)
        assert (~negative).sum() == (ids % 20 == 0).sum()
        found.append(set(got.impression_id))


def test_permuted_labels_move_no_negative() -> None:
    """Neither primary labels of other rows nor any label of another task decide about a row."""
    schema, asked = schema_of(CLICK, VIEW), Mixing(tau=0.5, budget=0.4)
    ids, rng = np.arange(4000), np.random.default_rng(1)
    surface = np.where(ids % 5 == 0, "story", "feed")
    found = []
    for _ in range(2):
        label = np.stack([rng.permutation(ids % 20 == 0), rng.permutation(ids % 2 == 0)], axis=1).astype(float)
        due = rows_of(ids, surface, 0.8, label)
        got, told = mixed(due, due, schema, asked)
        positive = ids[label[:, 0] > 0]
        found.append((got, told, set(positive.tolist())))
    (one, told, first), (other, again, second) = found
    assert {name: entry["rate"] for name, entry in told.items()} == {n: entry["rate"] for n, entry in again.items()}
    assert negatives(one, first | second) == negatives(other, first | second)
    assert 1000 < len(negatives(one, first | second)) < 2000


def negatives(rows: Rows, positive: set[int]) -> dict[int, float]:
    """Keep rates by impression, without those that are positive somewhere."""
    rates = zip(rows.impression_id.tolist(), rows.columns["keep_rate"].values.tolist(), strict=True)
    return {key: rate for key, rate in rates if key not in positive}


@pytest.mark.parametrize("tau, budget", [*product((0.0, 0.5, 0.8, 1.0), (0.05, 0.3, 0.7, 1.0))])
def test_rates_solve_the_budget(tau: float, budget: float) -> None:
    sizes = {"feed": 60_000, "story": 25_000, "search": 10_000, "mail": 100}
    rates = rates_of(sizes, Mixing(tau=tau, budget=budget))
    assert sum(sizes[name] * rate for name, rate in rates.items()) == pytest.approx(budget * sum(sizes.values()))
    assert all(0 < rate <= 1 for rate in rates.values())
    # below the cap, rates stand as shares to the power of tau - 1
    free = [name for name, rate in rates.items() if rate < 1]
    factors = [rates[name] * sizes[name] ** (1 - tau) for name in free]
    assert max(factors, default=1.0) == pytest.approx(min(factors, default=1.0))
    if tau == 1.0:
        assert list(rates.values()) == pytest.approx([budget] * 4)
    if tau == 0.0 and budget == 0.05:
        assert rates["mail"] == 1.0 and rates["story"] * 25_000 == pytest.approx(rates["search"] * 10_000)


def test_a_surface_may_have_an_exponent_of_its_own() -> None:
    sizes = {"feed": 9_000, "story": 1_000}
    even, liked = (rates_of(sizes, Mixing(budget=0.3, taus=taus)) for taus in ({}, {"story": 0.5}))
    assert liked["story"] > even["story"] == pytest.approx(0.3) and liked["feed"] < even["feed"]
    assert rates_of({}, Mixing(budget=0.3)) == {}


def test_sizes_count_what_ingest_keeps_whatever_the_labels() -> None:
    ids = np.arange(3000)
    sizes = [
        sizes_of(rows_of(ids, "feed", 0.25, np.stack([label, label], axis=1).astype(float)))
        for label in (ids % 2 == 0, ids < 10)
    ]
    assert sizes[0] == sizes[1] == {"feed": int(kept(ids, np.full(3000, 0.25)).sum())}


def test_tasks_draw_numbers_of_their_own() -> None:
    ids = np.arange(50_000)
    one, other = uniform(ids), uniform(ids, f"{SALT}.view")
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.02
    assert other[7] == float(xxh64_int64(ids[7:8], string_id(f"{SALT}.view"))[0] >> np.uint64(11)) * 2.0**-53


def test_all_rows_are_trained_on_unless_asked() -> None:
    due = rows_of(np.arange(100), "feed", 0.5, np.zeros((100, 2)))
    assert mixed(due, due, schema_of(CLICK, VIEW), Mixing()) == (due, {})


def test_a_day_says_its_rates_and_rows() -> None:
    ids = np.arange(1000)
    due = rows_of(ids, np.where(ids % 10 == 0, "story", "feed"), 1.0, np.zeros((1000, 2)))
    got, told = mixed(due.take(np.flatnonzero(ids % 10)), due, schema_of(CLICK, VIEW), Mixing(budget=0.25))
    assert {name: entry["rate"] for name, entry in told.items()} == {"feed": 0.25, "story": 0.25}
    assert (told["story"]["shown"], told["story"]["due"], told["feed"]["shown"]) == (0, 100, 900)
    assert sum(entry["trained"] for entry in told.values()) == len(got)


def fitted(days: list[Rows], schema: FeatureSchema, corrected: bool = True) -> float:
    """Mean prediction of a model of one number, trained on all days."""
    if not corrected:
        days = [wrongly(rows, 1.0) for rows in days]

    def slope(logit: float) -> float:
        at = torch.full((1, 1), logit, dtype=torch.float64, requires_grad=True)
        return float(torch.autograd.grad(sum(losses_of(rows, schema, at).total() for rows in days), at)[0])

    return float(expit(brentq(slope, -15, 5)))


def test_scores_of_sampled_negatives_are_probabilities_of_the_full_log() -> None:
    """One click in a hundred, negatives kept at .1; then another keep rate and another budget on the next day."""
    schema, ids = schema_of(CLICK, surfaces=("feed",)), np.arange(100_000)
    click = (ids % 100 == 0).astype(float)[:, None]
    first = thinned(rows_of(ids, "feed", 0.1, click), schema, Mixing(budget=0.5), {"feed": 0.5})
    assert len(first) < 6_500
    assert fitted([first], schema) == pytest.approx(0.01, rel=0.05)
    second = thinned(rows_of(ids + 10**6, "feed", 0.3, click), schema, Mixing(budget=0.5), {"feed": 0.8})
    assert fitted([first, second], schema) == pytest.approx(0.01, rel=0.05)
    unmixed = rows_of(ids, "feed", 0.1, click)
    assert fitted([unmixed], schema, corrected=False) == pytest.approx(0.092, rel=0.05)


def test_what_is_no_mix_is_refused() -> None:
    for wrong, named in (
        ({"tau": 1.5}, "tau is 1.5"),
        ({"budget": 0.0}, "budget is 0"),
        ({"tasks": {"view": 2}}, "view"),
    ):
        with pytest.raises(MixingError, match=named):
            Mixing(**wrong)
    with pytest.raises(MixingError, match=r"names \['click'\]"):
        Mixing(tasks={"click": 0.5}).require_fits(schema_of(CLICK, VIEW))
    with pytest.raises(MixingError, match="attic"):
        Mixing(taus={"attic": 0.5}).require_fits(schema_of(CLICK, VIEW))


def test_a_recipe_carries_its_mix() -> None:
    made = recipe("gem_tiny", {"mixing": {"budget": 0.5, "tasks": {"buy": 0.5}}}).derive({"mixing": {"tau": 0.7}})
    assert made.mixing == Mixing(tau=0.7, budget=0.5, tasks={"buy": 0.5})
    assert Recipe.from_dict(made.to_dict()) == made
    with pytest.raises(RecipeError, match="share"):
        made.derive({"mixing": {"share": 0.5}})
    with pytest.raises(RecipeError, match="budget is 3"):
        made.derive({"mixing": {"budget": 3}})


def test_a_direct_task_tells_nothing_of_a_primary_positive() -> None:
    """Where the parent does not exist, a label of the child stands on every row."""
    click, buy = TaskSpec("click", primary=True, surfaces=("feed",)), TaskSpec("buy", parent="click")
    rows = rows_of(np.arange(2), ["feed", "story"], 1.0, np.array([[0.0, 0.0]] * 2), np.array([[0.0, 1.0]] * 2))
    assert mixing.known_positive(rows, schema_of(click, buy)).tolist() == [True, False]
