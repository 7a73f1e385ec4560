"""Columns of boosting: numbers that describe a household's past with a product, as of the start of the day.

`running` is what a first attempt would use, running totals of earlier purchases. `strong` adds windows,
recency, regularity, prices and promotions of earlier days. Both get the statistics of the feature store and
the attributes that every model gets.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property

import numpy as np

from benchmarks.rivals.counting import Before, Log
from benchmarks.rivals.dataset import Dataset, LogFiles
from features.transform.hashing import string_id
from training.metrics import Floats, Integers
from training.parquet import read_columns
from training.reader import Rows

KEYS = ("ad_id", "product_type", "category", "manufacturer", "department")
"""Same names in examples and in histories."""

CATEGORICAL = (
    "surface_id",
    "context_display",
    "context_mailer",
    "context_store",
    "department",
    "brand",
    "age",
    "income",
    "household_size",
    "hour",
    "weekday",
)
MONTH, SEASON = 28, 84
SETS = ("running", "strong")


@dataclass(frozen=True)
class Table:
    """N rows of C columns.

    Attributes:
        names: of the columns.
        values: float32 [N, C]; NaN where a value is missing.
        categorical: the first so many columns are codes.
    """

    names: tuple[str, ...]
    values: np.ndarray
    categorical: int


@dataclass(frozen=True)
class Past:
    """Logs of everything that happened, from which a row may see the days before its own."""

    dataset: Dataset

    @cached_property
    def _purchases(self) -> dict[str, np.ndarray]:
        store = self.dataset.reader.histories
        bought = np.flatnonzero(store.type == string_id("purchase"))
        owner = np.repeat(store.user_ids, np.diff(store.offsets))
        fields = {name: column.values[bought] for name, column in store.fields.items()}
        return fields | {"user_id": owner[bought], "day": store.day[bought]}

    def bought(self, *keys: str) -> Log:
        """Purchases by these columns of histories."""
        log = self._purchases
        return Log.of(tuple(log[key] for key in keys), log["day"])

    @cached_property
    def prices(self) -> Log:
        """Paid amounts by product, of all households."""
        events = _stacked(self.dataset.files, "events", ["ad_id", "value"])
        return Log.of((events["ad_id"],), events["day"], np.nan_to_num(events["value"]))

    @cached_property
    def _promotions(self) -> dict[str, np.ndarray]:
        return _stacked(self.dataset.files, "examples", ["ad_id", "context_store"])

    def promoted(self, *keys: str) -> Log:
        """Promotions as the kept impressions show them."""
        log = self._promotions
        return Log.of(tuple(log[key] for key in keys), log["day"])


def tables(dataset: Dataset, kind: str) -> tuple[Table, Table]:
    """Columns of the fitted and the judged rows.

    Args:
        dataset: the rows.
        kind: one of `SETS`.
    """
    past, codes = Past(dataset), {name: _codes(dataset, name) for name in CATEGORICAL}
    fit, judged = (_table(past, codes, rows, kind) for rows in (dataset.fit, dataset.judged))
    return fit, judged


def _table(past: Past, codes: dict[str, Integers], rows: Rows, kind: str) -> Table:
    columns: dict[str, Floats] = {}
    for name in CATEGORICAL:
        column = rows.columns[name]
        place = np.searchsorted(codes[name], column.values)
        columns[name] = np.where(column.missing, np.nan, place)
    for feature in past.dataset.files.schema.dense:
        column = rows.columns[feature.name]
        columns[feature.name] = np.where(column.missing, np.nan, column.values)
    extra = _running(past, rows) if kind == "running" else _strong(past, rows)
    columns |= dict(extra)
    values = np.stack([column.astype(np.float32) for column in columns.values()], axis=1)
    return Table(tuple(columns), values, len(CATEGORICAL))


def _running(past: Past, rows: Rows) -> Iterator[tuple[str, Floats]]:
    for key in KEYS:
        yield f"own_{key}", _state(past.bought("user_id", key), rows, "user_id", key).count()
    yield "own", _state(past.bought("user_id"), rows, "user_id").count()


def _strong(past: Past, rows: Rows) -> Iterator[tuple[str, Floats]]:
    own = _state(past.bought("user_id"), rows, "user_id")
    season = np.maximum(own.count(SEASON), 1.0)
    yield "own", own.count()
    yield "own_days_28", own.days(MONTH)
    for key in KEYS:
        state = _state(past.bought("user_id", key), rows, "user_id", key)
        yield from _regularity(f"own_{key}", state)
        yield f"own_{key}_share", state.count(SEASON) / season
        if key == "ad_id":
            yield "own_ad_id_rate", state.days() / np.maximum(own.days(), 1.0)
    yield from _stores(past, rows)
    for key in ("product_type", "category"):
        yield f"all_{key}_28", _state(past.bought(key), rows, key).count(MONTH)
    yield from _prices(past, rows)
    yield from _promotions(past, rows)


def _regularity(name: str, state: Before) -> Iterator[tuple[str, Floats]]:
    yield name, state.count()
    yield f"{name}_84", state.count(SEASON)
    yield f"{name}_28", state.count(MONTH)
    yield f"{name}_recency", state.recency()
    yield f"{name}_interval", state.interval()
    yield f"{name}_due", state.due()


def _stores(past: Past, rows: Rows) -> Iterator[tuple[str, Floats]]:
    log = past.bought("user_id", "store")
    state = log.before((_values(rows, "user_id"), _values(rows, "context_store")), rows.day)
    yield "own_store_84", state.count(SEASON)
    yield "own_store_recency", state.recency()


def _prices(past: Past, rows: Rows) -> Iterator[tuple[str, Floats]]:
    """Mean price of earlier weeks, and how far the last four lie below it (discount)."""
    state = _state(past.prices, rows, "ad_id")
    usual, recent = (_ratio(state.total(back), state.count(back)) for back in (None, MONTH))
    yield "price", usual
    yield "price_28", recent
    yield "discount_28", _ratio(recent, usual)


def _promotions(past: Past, rows: Rows) -> Iterator[tuple[str, Floats]]:
    state = _state(past.promoted("ad_id"), rows, "ad_id")
    yield "promoted_28", state.count(MONTH)
    yield "promoted_days_84", state.days(SEASON)
    yield "promoted_recency", state.recency()
    here = _state(past.promoted("ad_id", "context_store"), rows, "ad_id", "context_store")
    yield "promoted_here_84", here.count(SEASON)
    yield "promoted_here_recency", here.recency()


def _state(log: Log, rows: Rows, *keys: str) -> Before:
    return log.before(tuple(_values(rows, key) for key in keys), rows.day)


def _values(rows: Rows, name: str) -> Integers:
    """Ids, a number of its own where missing: what is unknown matches nothing."""
    column = rows.columns[name]
    return np.where(column.missing, np.iinfo(np.int64).min, column.values).astype(np.int64)


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)


def _codes(dataset: Dataset, name: str) -> Integers:
    return np.unique(np.concatenate([rows.columns[name].values for rows in (dataset.fit, dataset.judged)]))


def _stacked(files: LogFiles, table: str, names: list[str]) -> dict[str, np.ndarray]:
    """Columns of all days of a table, and `day`."""
    parts = []
    for ds, entry in sorted(getattr(files, table).items()):
        columns = read_columns(entry, names, table, ds)
        held = ~np.any([column.missing for name, column in columns.items() if name != "value"], axis=0)
        found = {name: column.values[held] for name, column in columns.items()}
        parts.append(found | {"day": np.full(int(held.sum()), date.fromisoformat(ds).toordinal())})
    return {name: np.concatenate([part[name] for part in parts]) for name in (*names, "day")}
