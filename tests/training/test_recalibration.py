"""Recalibration by matured labels: what it finds, what it may not know, and that a chain of walks goes on with it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from features.days import shift
from features.transform.batch import Labels
from features.transform.columns import Column
from features.transform.schema import FeatureSchema, TaskSpec
from tests.training.conftest import schema as small_schema
from training import logit_sums, recalibration
from training.logit_sums import DECAY
from training.recalibration import Recalibration
from training.walk import CANDIDATE, Link, Predictions, walk

DAYS = tuple(shift("2024-05-01", number) for number in range(5))
ROWS = 6000
SURFACES = ("feed", "story", "reels")
TRUE = {"feed": (0.6, 0.5), "story": (1.4, -0.3), "reels": (1.0, 0.2)}
"""Slope and offset of the true logit of a click over the given one."""
SCHEMA = replace(
    small_schema(), surfaces=SURFACES, tasks=(TaskSpec("click", primary=True), TaskSpec("buy", parent="click"))
)


def ordinal(day: str) -> int:
    return date.fromisoformat(day).toordinal()


@dataclass
class Shown:
    """What stands in for `training.reader.Rows`: the columns that a walk reads."""

    columns: dict[str, Column]
    day: np.ndarray
    logits: np.ndarray
    labels: Labels | None = None

    def __len__(self) -> int:
        return len(self.day)

    @property
    def impression_id(self) -> np.ndarray:
        return self.columns["impression_id"].values

    def take(self, index: np.ndarray) -> "Shown":
        columns = {name: Column(column.values[index], column.missing[index]) for name, column in self.columns.items()}
        return Shown(columns, self.day[index], self.logits[index])


@dataclass
class Log:
    """Days of impressions: clicks are due on the day, buys of clicked ones on the next; reels are few.

    Given logits are around -2 and wrong as `TRUE` says; half of the negatives of feed were left out, and weigh twice.
    """

    shown: dict[str, Shown] = field(default_factory=dict)
    click: dict[str, np.ndarray] = field(default_factory=dict)
    buy: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def made(cls) -> "Log":
        log = cls()
        for number, day in enumerate(DAYS):
            rng = np.random.default_rng(number)
            surface = rng.choice(np.array(SURFACES, dtype=object), ROWS, p=[0.59, 0.4, 0.01])
            raw = rng.normal([-2.0, -1.0], 1.0, (ROWS, 2)).astype(np.float32)
            lines = np.array([TRUE[name] for name in surface])
            click = rng.random(ROWS) < expit(lines[:, 0] * raw[:, 0] + lines[:, 1])
            kept = np.flatnonzero(click | (surface != "feed") | (rng.random(ROWS) < 0.5))
            here = np.zeros(len(kept), dtype=bool)
            columns = {
                "impression_id": Column(number * 10_000 + kept, here),
                "surface": Column(surface[kept], here),
                "keep_rate": Column(np.where(surface[kept] == "feed", 0.5, 1.0), here),
            }
            log.shown[day] = Shown(columns, np.full(len(kept), ordinal(day)), raw[kept])
            log.click[day] = click[kept].astype(np.float32)
            log.buy[day] = (rng.random(len(kept)) < expit(0.8 * raw[kept, 1] + 0.7)).astype(np.float32)
        return log

    def examples(self, day: str) -> Shown:
        return self.shown[day]

    def labelled(self, day: str) -> Shown:
        """Clicks of the day and, of the clicked ones of the day before, buys; nothing else is due."""
        today = self.shown[day]
        parts = [(today, 0, self.click[day], np.arange(len(today)))]
        if (before := shift(day, -1)) in self.shown:
            parts.append((self.shown[before], 1, self.buy[before], np.flatnonzero(self.click[before])))
        taken = [rows.take(index) for rows, _, _, index in parts]
        columns = {
            name: Column(
                np.concatenate([rows.columns[name].values for rows in taken]),
                np.concatenate([rows.columns[name].missing for rows in taken]),
            )
            for name in taken[0].columns
        }
        size = sum(len(rows) for rows in taken)
        label, mask, weight = (np.zeros((size, 2), dtype=np.float32) for _ in range(3))
        start = 0
        for (_, task, labels, index), rows in zip(parts, taken, strict=True):
            own = slice(start, start + len(rows))
            label[own, task], mask[own, task] = labels[index], 1.0
            # clicked rows were kept whatever their number, so each stands for itself
            clicked = self.click[day][index] > 0 if task == 0 else True
            weight[own, task] = np.where(clicked, 1.0, 1 / rows.columns["keep_rate"].values)
            start += len(rows)
        day_of = np.concatenate([rows.day for rows in taken])
        return Shown(columns, day_of, np.concatenate([rows.logits for rows in taken]), Labels(label, mask, weight))


class Shares:
    def report(self) -> dict[str, Any]:
        return {}


@dataclass
class Model:
    """Gives the log's logits, and others once it has trained: after training a label is known too well."""

    schema: FeatureSchema = SCHEMA
    trained: set[int] = field(default_factory=set)
    shares: Shares = field(default_factory=Shares)

    def scores(self, reader: Any, rows: Any, link: Link = torch.sigmoid) -> Mapping[str, np.ndarray]:
        seen = np.isin(rows.impression_id, list(self.trained))
        raw = np.where(seen[:, None], np.float32(9), rows.logits)
        return {CANDIDATE: link(torch.from_numpy(raw)).numpy(), "alone": link(torch.from_numpy(raw - 1)).numpy()}

    def train_on(self, reader: Any, rows: Any, where: str) -> Iterator[float]:
        self.trained |= set(rows.impression_id.tolist())
        yield 0.5

    def gates(self) -> dict[str, Any]:
        return {}

    def start_at(self, rates: Mapping[str, float]) -> None: ...
    def weigh(self, rates: Mapping[str, float]) -> None: ...


STARTED = {"click": 0.1, "buy": 0.3}


def walked(log: Log, days: tuple[str, ...], found: Recalibration, rates: Any = STARTED) -> Predictions:
    predictions = Predictions(SCHEMA)
    walk(Model(), log, days, predictions, rates, lambda line: None, found)  # type: ignore[arg-type]
    return predictions


def told(log: Log, days: tuple[str, ...], role: str = CANDIDATE) -> dict[str, Any]:
    found = Recalibration(SCHEMA, on=True)
    walked(log, days, found)
    return dict(found.told()["recalibration"][role])


def scored(predictions: Predictions, day: str, task: str, role: str = CANDIDATE) -> np.ndarray:
    rows = predictions.table().to_pandas()
    chosen = rows[(rows.scored_ds == day) & (rows.task == task) & (rows.role == role)]
    found: np.ndarray = chosen.sort_values("impression_id").prediction.to_numpy()
    return found


def line(given: Mapping[str, Any]) -> tuple[float, float]:
    return given["slope"], given["offset"]


@pytest.fixture(scope="module")
def log() -> Log:
    return Log.made()


def test_planted_lines_are_found_on_weighted_rows(log: Log) -> None:
    found = told(log, DAYS)
    for surface in ("feed", "story"):
        assert line(found["click"]["surfaces"][surface]) == pytest.approx(TRUE[surface], abs=0.08)
        assert found["click"]["surfaces"][surface]["level"] == "own"
    assert line(found["buy"]["surfaces"]["feed"]) == pytest.approx((0.8, 0.7), abs=0.1)


def test_the_lines_are_those_of_a_regression_over_all_rows_that_fade_day_by_day(log: Log) -> None:
    found = told(log, DAYS)
    rows = [log.labelled(day) for day in DAYS]
    fade = np.concatenate([np.full(len(due), DECAY ** (len(DAYS) - 1 - number)) for number, due in enumerate(rows)])
    surface = np.concatenate([due.columns["surface"].values for due in rows])
    label, mask, weight = (np.concatenate([getattr(due.labels, name) for due in rows]) for name in Labels._fields)
    raw = np.concatenate([due.logits for due in rows])
    for task, name in enumerate(("click", "buy")):
        for where in (*SURFACES[:2], None):
            own = (mask[:, task] > 0) & (surface == where if where else True)
            x, y, w = raw[own, task].astype(np.float64), label[own, task], (weight[:, task] * fade)[own]
            fit = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(x[:, None], y, w)
            given = found[name]["surfaces"][where] if where else found[name]["pooled"]
            # what is left is the ridge, worth about one row
            assert line(given) == pytest.approx((fit.coef_[0, 0], fit.intercept_[0]), abs=0.01)
            assert given["positives"] == pytest.approx((y * fade[own]).sum(), abs=0.06)


def test_a_surface_with_few_positives_gets_what_is_pooled_and_a_task_with_few_stays(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = told(log, DAYS)
    assert found["click"]["surfaces"]["reels"] == found["click"]["pooled"]
    assert found["click"]["pooled"]["level"] == "pooled" and line(found["click"]["pooled"]) != (1.0, 0.0)
    most = found["click"]["surfaces"]["feed"]["positives"]
    monkeypatch.setattr(logit_sums, "MIN_ROWS", most + 1)
    assert told(log, DAYS)["click"]["surfaces"]["feed"]["level"] == "pooled"
    monkeypatch.setattr(logit_sums, "MIN_ROWS", 1_000_000)
    still = told(log, DAYS)["click"]
    positives = found["click"]["pooled"]["positives"]
    assert still["pooled"] == {"slope": 1.0, "offset": 0.0, "positives": positives, "level": "identity"}
    assert set(still["surfaces"]) == set(SURFACES) and all(one == still["pooled"] for one in still["surfaces"].values())


def test_few_negatives_are_too_few_as_well(log: Log) -> None:
    sure = Log(log.shown, {day: np.ones_like(click) for day, click in log.click.items()}, log.buy)
    assert told(sure, DAYS)["click"]["pooled"]["level"] == "identity"


def test_a_day_is_scored_by_what_was_due_before_it(log: Log) -> None:
    before = walked(log, DAYS, Recalibration(SCHEMA, on=True))
    click = log.click | {DAYS[2]: 1 - log.click[DAYS[2]]}
    after = walked(Log(log.shown, click, log.buy), DAYS, Recalibration(SCHEMA, on=True))
    raw = walked(log, DAYS, Recalibration(SCHEMA, on=False))
    for day in DAYS[:3]:
        np.testing.assert_array_equal(scored(before, day, "click"), scored(after, day, "click"))
    for day in DAYS[3:]:
        assert np.abs(scored(before, day, "click") - scored(after, day, "click")).max() > 0.05
    # the first day knows of no label at all, the last one of those of the days before
    np.testing.assert_allclose(scored(before, DAYS[0], "click"), scored(raw, DAYS[0], "click"), rtol=1e-6)
    lines = told(log, DAYS[:4])["click"]["surfaces"]
    given = logit(scored(raw, DAYS[4], "click").astype(np.float64))
    slope, offset = np.array([line(lines[name]) for name in log.shown[DAYS[4]].columns["surface"].values]).T
    np.testing.assert_allclose(scored(before, DAYS[4], "click"), expit(slope * given + offset), atol=1e-6)


def test_what_is_served_is_calibrated_where_the_raw_model_is_not(log: Log) -> None:
    due = log.labelled(DAYS[4])
    assert due.labels is not None
    off = walked(log, DAYS, Recalibration(SCHEMA, on=False)).as_served(due)  # type: ignore[arg-type]
    on = walked(log, DAYS, Recalibration(SCHEMA, on=True)).as_served(due)  # type: ignore[arg-type]
    for task in ("click", "buy"):
        ratios = [
            sample[task].weight @ sample[task].prediction / sample[task].positive_weight.sum() for sample in (off, on)
        ]
        assert abs(ratios[0] - 1) > 0.2 and abs(ratios[1] - 1) < 0.07, (task, ratios)


def test_labels_that_are_not_due_have_no_influence(log: Log) -> None:
    """What stands under a mask of 0, and labels of later days, change nothing to the last bit."""
    expected, planted = Recalibration(SCHEMA, on=True), Recalibration(SCHEMA, on=True)
    walked(log, DAYS[:3], expected)

    class Early(Log):
        def labelled(self, day: str) -> Shown:
            due = super().labelled(day)
            assert due.labels is not None
            label, mask, weight = due.labels
            return replace(due, labels=Labels(np.where(mask > 0, label, 1), mask, np.where(mask > 0, weight, 50)))

    later = {day: 1 - buy if day >= DAYS[2] else buy for day, buy in log.buy.items()}
    walked(Early(log.shown, log.click, later), DAYS[:3], planted)
    same(expected, planted)


def same(one: Recalibration, other: Recalibration) -> None:
    first, second = one.tensors(), other.tensors()
    assert one.told() == other.told() and first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


def continued(found: Recalibration) -> Recalibration:
    """As a checkpoint hands it on."""
    made = Recalibration.in_force(SCHEMA, found.told())
    held = found.tensors()
    for role, own in made.roles.items():
        start = f"{recalibration.PREFIX}{role}."
        own.restore({n.removeprefix(start): t for n, t in held.items() if n.startswith(start)}, SURFACES)
    return made


def test_one_day_walks_give_what_one_long_walk_gives(log: Log) -> None:
    whole, step = Recalibration(SCHEMA, on=True), Recalibration(SCHEMA, on=True)
    expected = walked(log, DAYS, whole)
    for day in DAYS:
        step = continued(step)
        step.on = True
        found = walked(log, (day,), step)
        for role in (CANDIDATE, "alone"):
            np.testing.assert_array_equal(scored(found, day, "buy", role), scored(expected, day, "buy", role))
    same(whole, step)
    # of the delayed task something was there to be handed on
    assert whole.told()["recalibration"][CANDIDATE]["buy"]["surfaces"]["feed"]["level"] == "own"


def test_only_pairs_that_may_still_become_due_wait(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Recalibration(SCHEMA, on=True)
    walked(log, DAYS[:2], found)
    waiting = found.roles[CANDIDATE].waiting.held
    clicked = log.shown[DAYS[1]].impression_id[log.click[DAYS[1]] > 0]
    assert set(waiting) == {(ordinal(DAYS[1]), impression) for impression in clicked.tolist()}
    assert all(np.isnan(logits[0]) and np.isfinite(logits[1]) for logits in waiting.values())
    # a label that never comes is waited for until the horizon
    monkeypatch.setattr(recalibration, "HORIZON", 1)
    silent = Log(log.shown, log.click, log.buy)
    late = Recalibration(SCHEMA, on=True)
    walked(silent, (DAYS[0], DAYS[2]), late)
    assert {day for day, _ in late.roles[CANDIDATE].waiting.held} == {ordinal(DAYS[2])}


def test_the_prediction_that_counts_is_the_one_before_training(log: Log) -> None:
    """The model gives 9 to what it trained on; buys are due a day after their impression's click was trained on."""
    sums = Recalibration(SCHEMA, on=True)
    walked(log, DAYS, sums)
    high = sums.roles[CANDIDATE].sums.sums[..., -(512 // 32) * 8 :]
    assert Model(trained={0}).scores(None, log.shown[DAYS[0]].take(np.array([0])))[CANDIDATE].max() < 0.9999
    assert not high.any()


def test_a_task_without_a_label_yet_waits_for_none(log: Log) -> None:
    found = Recalibration(SCHEMA, on=True)
    walked(log, DAYS[:1], found, rates={"click": 0.1})
    assert not len(found.roles[CANDIDATE].waiting)
    assert found.roles[CANDIDATE].sums.sums[:, 0].any() and not found.roles[CANDIDATE].sums.sums[:, 1].any()


def test_each_role_has_lines_of_its_own(log: Log) -> None:
    candidate, alone = (told(log, DAYS, role)["click"]["surfaces"]["story"] for role in (CANDIDATE, "alone"))
    assert alone["slope"] == pytest.approx(candidate["slope"], abs=0.01)
    assert alone["offset"] == pytest.approx(candidate["offset"] + candidate["slope"], abs=0.02)


def test_surfaces_are_found_by_name_and_new_ones_get_what_is_pooled(log: Log) -> None:
    found = Recalibration(SCHEMA, on=True)
    walked(log, DAYS, found)
    more = replace(SCHEMA, surfaces=("new", "reels", "story", "feed"))
    wide = Recalibration.in_force(more, found.told())
    for role, own in wide.roles.items():
        own.restore(found.roles[role].tensors(), SURFACES)
        again = own.sums.told()
        for task, lines in found.roles[role].told.items():
            assert {name: again[task]["surfaces"][name] for name in SURFACES[:2]} == {
                name: lines["surfaces"][name] for name in SURFACES[:2]
            }
            assert line(again[task]["surfaces"]["new"]) == pytest.approx(line(lines["pooled"]), abs=1e-9)
    # before any label of it, and in a model whose schema does not have it
    rows = log.shown[DAYS[0]].take(np.arange(2))
    strange = replace(
        rows, columns=rows.columns | {"surface": Column(np.array(["new", "never"], object), np.zeros(2, bool))}
    )
    for schema in (more, SCHEMA):
        given = Recalibration.in_force(schema, found.told()).scores(Model(), None, strange)[CANDIDATE]  # type: ignore[arg-type]
        slope, offset = line(found.told()["recalibration"][CANDIDATE]["click"]["pooled"])
        np.testing.assert_allclose(given[:, 0], expit(slope * rows.logits[:, 0] + offset), rtol=1e-6)


def test_off_it_is_not_there(log: Log) -> None:
    found = Recalibration(SCHEMA, on=False)
    walked(log, DAYS, found)
    assert found.told() == {} and found.tensors() == {} and found.roles == {}
    raw = found.scores(Model(), None, log.shown[DAYS[0]])[CANDIDATE]  # type: ignore[arg-type]
    np.testing.assert_array_equal(raw, torch.from_numpy(log.shown[DAYS[0]].logits).sigmoid().numpy())
