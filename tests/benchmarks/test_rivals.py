"""What peers are fed with: the past alone, the same past for all, and the sampling undone once."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks.rivals import columns, contenders
from benchmarks.rivals.boosting import full_log
from benchmarks.rivals.dataset import Dataset, LogFiles, Records, Span, Truth, Weeks
from benchmarks.rivals.gem import Gem
from benchmarks.rivals.nets import Net, in_training_order
from benchmarks.rivals.popularity import Popular
from features.schema_of import schema_of
from features.transform.hashing import string_id
from features.worlds import load_world
from training.plan import DayFiles
from training.recipes import RECIPES

FIRST, DAYS = date(2017, 1, 2), 21
SPAN = Span(Weeks(2, 3), Weeks(4, 4))
Change = Callable[[str, dict[str, np.ndarray]], dict[str, np.ndarray]]


def _same(ds: str, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return columns


def _records(folder: Path, change: Change = _same) -> Records:
    """Three weeks of 40 examples and 30 purchases a day; `change` alters a day's purchases before they are written."""
    rng = np.random.default_rng(0)
    schema = schema_of(load_world("complete_journey")).part(("mailer",), ("purchase",))
    files: dict[str, dict[str, DayFiles]] = {name: {} for name in ("examples", "labels", "user_history", "events")}
    for number in range(DAYS):
        day = FIRST + timedelta(days=number)
        examples = _examples(rng, schema, day, number)
        label = (rng.random(40) < 0.3).astype(np.float64)
        tables = {
            "examples": examples,
            "labels": {
                "ds": [day.isoformat()] * 40,
                "impression_id": examples["impression_id"],
                "task": ["purchase"] * 40,
                "label": label,
                "weight": np.where(label == 1, 1.0, 200.0),
            },
        }
        bought = change(day.isoformat(), _purchases(rng, day))
        tables["events"] = bought
        tables["user_history"] = _by_user(bought)
        for name, content in tables.items():
            path = folder / f"{name}-{number}.parquet"
            pq.write_table(pa.table(content), path)
            files[name][day.isoformat()] = DayFiles(f"{name}{number}", (str(path),))
    return Records(LogFiles(schema=schema, seed=0, **files))


def _examples(rng: np.random.Generator, schema: object, day: date, number: int) -> dict[str, np.ndarray]:
    from features.transform.schema import FeatureSchema

    assert isinstance(schema, FeatureSchema)
    noon = int((day - date(1970, 1, 1)).days * 86_400_000_000 + 43_200_000_000)
    found = {entry.name: rng.integers(1, 4, 40) for entry in schema.categorical}
    found |= {entry.name: rng.random(40) for entry in schema.dense}
    return found | {
        "impression_id": np.arange(40) + 40 * number,
        "user_id": rng.integers(1, 6, 40),
        "surface": np.full(40, "mailer"),
        "request_ts": np.full(40, noon),
        "keep_rate": np.full(40, 0.005),
    }


def _purchases(rng: np.random.Generator, day: date) -> dict[str, np.ndarray]:
    morning = int((day - date(1970, 1, 1)).days * 86_400_000_000)
    fields = ("ad_id", "product_type", "category", "manufacturer", "department", "store")
    return {
        "user_id": rng.integers(1, 6, 30),
        "event_us": morning + rng.integers(0, 86_000_000_000, 30),
        "event_type": np.full(30, string_id("purchase")),
        "value": rng.random(30) * 5,
        **{name: rng.integers(1, 4, 30) for name in fields},
    }


def _by_user(bought: dict[str, np.ndarray]) -> dict[str, list]:
    users = np.unique(bought["user_id"])
    arrays = {name: values for name, values in bought.items() if name not in ("user_id", "value")}
    listed = {name: [values[bought["user_id"] == user].tolist() for user in users] for name, values in arrays.items()}
    return {"user_id": users.tolist(), **listed}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Truth]:
    return _records(tmp_path_factory.mktemp("log")).dataset(SPAN)


def test_rows_are_split_by_week_and_the_truth_is_apart(given: tuple[Dataset, Truth]) -> None:
    dataset, truth = given
    assert (len(dataset.fit), len(dataset.judged)) == (14 * 40, 7 * 40)
    assert dataset.fit.day.max() < dataset.judged.day.min()
    assert dataset.judged.labels is None
    assert set(np.unique(truth.week)) == {4}
    assert_array_equal(np.unique(truth.weight), [1.0, 200.0])


def test_the_trainers_days_hold_the_same_rows(given: tuple[Dataset, Truth]) -> None:
    dataset, _ = given
    rows_of = dataset.training_days(seed=3)
    found = [(int(row), day) for day in dataset.days for row in rows_of(day).impression_id]
    assert sorted(row for row, _ in found) == sorted(dataset.fit.impression_id.tolist())
    other = [row for day in dataset.days for row in dataset.training_days(seed=4)(day).impression_id]
    assert [row for row, _ in found] != other


@pytest.mark.parametrize("kind", columns.SETS)
def test_a_day_is_described_without_its_own_purchases(kind: str, tmp_path: Path) -> None:
    day = "2017-01-20"

    def more(ds: str, bought: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return bought if ds != day else {name: np.repeat(values, 3) for name, values in bought.items()}

    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    one, _ = _records(tmp_path / "a").dataset(SPAN)
    two, _ = _records(tmp_path / "b", more).dataset(SPAN)
    (_, before), (_, after) = columns.tables(one, kind), columns.tables(two, kind)
    same = (before.values == after.values) | (np.isnan(before.values) & np.isnan(after.values))
    until = one.judged.day <= date.fromisoformat(day).toordinal()
    assert same[until].all()
    assert not same[~until].all()


def test_counts_are_of_the_rows_own_household_and_product(given: tuple[Dataset, Truth]) -> None:
    dataset, _ = given
    fit, _ = columns.tables(dataset, "strong")
    store = dataset.reader.histories
    owner = np.repeat(store.user_ids, np.diff(store.offsets))
    for row in range(0, len(dataset.fit), 37):
        user, ad = (dataset.fit.columns[name].values[row] for name in ("user_id", "ad_id"))
        earlier = (owner == user) & (store.day < dataset.fit.day[row])
        assert fit.values[row, fit.names.index("own")] == earlier.sum()
        own = earlier & (store.fields["ad_id"].values == ad)
        assert fit.values[row, fit.names.index("own_ad_id")] == own.sum()


def test_sampling_is_undone_on_the_odds_once(given: tuple[Dataset, Truth]) -> None:
    dataset, _ = given
    sampled = np.linspace(0.01, 0.99, len(dataset.judged))
    full = full_log(sampled, dataset.judged)
    assert_allclose(full / (1 - full), 0.005 * sampled / (1 - sampled))


def test_a_nets_history_is_the_readers_newest_last(given: tuple[Dataset, Truth]) -> None:
    dataset, _ = given
    net = Net("din", history=7)
    batch = net._batch(dataset, dataset.judged)
    edges = {feature.name: np.zeros(0) for feature in dataset.files.schema.dense}
    arrays = net._arrays(dataset, batch, dataset.judged, edges)
    assert arrays["known"].sum() == int(batch.history_lengths.sum())
    last = batch.history_lengths.cumsum(0) - 1
    full = batch.history_lengths.numpy() > 0
    assert_array_equal(arrays["events"][full, -1, 0], batch.history["ad_id"][last].numpy()[full])
    assert (arrays["events"][~arrays["known"]] == 0).all()
    assert arrays["codes"].shape[1] == len(dataset.files.schema.categorical) + len(dataset.files.schema.dense)


def test_rows_are_trained_on_in_the_order_of_days(given: tuple[Dataset, Truth]) -> None:
    dataset, _ = given
    order = in_training_order(dataset.fit, 1)
    assert (np.diff(dataset.fit.day[order]) >= 0).all()
    assert sorted(order.tolist()) == list(range(len(dataset.fit)))
    assert (order != in_training_order(dataset.fit, 2)).any()


def test_popularity_forgets_weeks_outside_its_window(given: tuple[Dataset, Truth]) -> None:
    dataset, _ = given
    late = dataset.fit.take(np.flatnonzero(dataset.fit.day > dataset.fit.day.max() - 7))
    assert_allclose(Popular(weeks=1)(dataset, 0), Popular()(replace(dataset, fit=late), 0))


def test_all_contenders_have_as_many_trials() -> None:
    assert len({len(trials) for trials in contenders.TRIALS.values()}) == 1
    assert set(contenders.FILES) == set(contenders.TRIALS) - set(RECIPES), "a recipe's code is all that trains"


def test_predictions_are_made_once_for_the_same_settings_seed_and_rows(
    given: tuple[Dataset, Truth], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dataset, _ = given
    asked: list[int] = []

    def peer(name: str, settings: object) -> Callable[[Dataset, int], np.ndarray]:
        return lambda dataset, seed: asked.append(seed) or np.full(len(dataset.judged), 0.1)

    monkeypatch.setenv("GEMLINE_HOME", str(tmp_path))
    monkeypatch.setattr(contenders, "peer_of", peer)
    for settings, seed in (({}, 1), ({}, 1), ({}, 2), ({"weeks": 3}, 1)):
        contenders.predictions("popularity", settings, dataset, seed)
    fewer = replace(dataset, judged=dataset.judged.take(np.arange(5)))
    contenders.predictions("popularity", {}, fewer, 1)
    assert asked == [1, 2, 1, 1]


def test_gem_is_trained_by_its_own_steps_and_is_a_function_of_the_seed(given: tuple[Dataset, Truth]) -> None:
    dataset, truth = given
    one, again, other = (Gem("gem_tiny")(dataset, seed) for seed in (1, 1, 2))
    assert_array_equal(one, again)
    assert (one != other).any()
    assert one.shape == truth.label.shape
    # labels are kept with their weights: 0.3 of the kept rows are positive, far fewer of the full log
    assert 0 < one.mean() < 0.02
