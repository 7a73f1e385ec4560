"""Rows and histories of the comparison: who is in it, which weeks train, which weeks judge.

A peer sees a `Dataset`: labelled rows to fit, rows without labels to predict, and the reader with all
histories (sliced as of the start of each row's day). The truth of the judged rows is kept apart from it.
"""

import copy
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.rivals.world import build_missing
from features.days import day_range
from features.errors import GemlineError
from features.sources.complete_journey.raw import WEEK_ONE
from features.transform.columns import Column
from features.transform.schema import FeatureSchema
from training.metrics import Floats, Integers
from training.plan import DayFiles
from training.reader import Reader, Rows

if TYPE_CHECKING:
    from features.worlds.schema import World

TASK = "purchase"
SURFACES = ("mailer", "store_display", "mailer_and_display")


@dataclass(frozen=True)
class Weeks:
    """First and last week, both included, as the promotions count them: week 1 begins on Monday 2016-12-26."""

    first: int
    last: int

    @property
    def days(self) -> list[str]:
        """Days of these weeks, in order."""
        start = WEEK_ONE + timedelta(weeks=self.first - 1)
        stop = WEEK_ONE + timedelta(weeks=self.last, days=-1)
        return day_range(start.isoformat(), stop.isoformat())


@dataclass(frozen=True)
class Span:
    """Which weeks train, and which later ones judge; a model is frozen between them."""

    fit: Weeks
    judged: Weeks

    def __post_init__(self) -> None:
        """Refuse to judge on what was trained on."""
        if self.judged.first <= self.fit.last:
            raise GemlineError(f"judged weeks must follow the fitted ones, not {self}")


TUNING = Span(Weeks(5, 39), Weeks(40, 43))
FINAL = Span(Weeks(5, 43), Weeks(44, 53))
QUICK = Span(Weeks(20, 21), Weeks(22, 22))
"""Inside the shipped slice of the log."""
HOUSEHOLDS = 0.25
"""Share of the households that takes part, by hash: what keeps the bench below 45 minutes on two cores."""


@dataclass(frozen=True)
class LogFiles:
    """Files of a world as a `Reader` wants them, and those of events, which also hold prices."""

    schema: FeatureSchema
    seed: int
    examples: dict[str, DayFiles]
    labels: dict[str, DayFiles]
    user_history: dict[str, DayFiles]
    events: dict[str, DayFiles]

    def hash(self) -> str:
        """Of the published contents of all days."""
        tables = (self.examples, self.labels, self.user_history, self.events)
        text = [f"{ds}={entry.content_hash}" for table in tables for ds, entry in sorted(table.items())]
        return hashlib.sha256("\n".join(text).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Truth:
    """Labels and weights in the full log of judged rows [N], and whose they are."""

    label: Floats
    weight: Floats
    user_id: Integers
    week: Integers
    sold: np.ndarray
    surface: np.ndarray


@dataclass(frozen=True)
class Dataset:
    """What a peer may see.

    Attributes:
        reader: histories and examples.
        files: what it reads.
        households: share of them that takes part, by hash.
        span: weeks.
        fit: labelled rows, by day and then by impression.
        judged: rows without labels, in the same order.
    """

    reader: Reader
    files: LogFiles
    households: float
    span: Span
    fit: Rows
    judged: Rows

    def label(self) -> np.ndarray:
        """Labels of the fitted rows, float32 [N]."""
        assert self.fit.labels is not None
        return self.fit.labels.label[:, 0]

    @property
    def days(self) -> list[str]:
        """Days of the fitted weeks that were published."""
        return [ds for ds in self.span.fit.days if ds in self.files.labels]

    def hash(self) -> str:
        """Of the rows and everything that can be known about them."""
        ids = hashlib.sha256(self.fit.impression_id.tobytes() + self.judged.impression_id.tobytes())
        return hashlib.sha256(f"{self.files.hash()} {self.span} {ids.hexdigest()}".encode()).hexdigest()[:16]

    def reader_of(self, seed: int) -> Reader:
        """The reader with another seed of row order."""
        other = copy.copy(self.reader)
        other.plan = replace(self.files, seed=seed)
        return other

    def training_days(self, seed: int) -> Callable[[str], Rows]:
        """Labelled rows of a day in the trainer's own order for that seed, of the households that take part."""
        reader = self.reader_of(seed)
        return lambda day: taking_part(reader.labelled(day), self.households)


Peer = Callable[[Dataset, int], Floats]
"""Trains on `dataset.fit` with a seed and gives probabilities in the full log of `dataset.judged`."""


@dataclass(frozen=True)
class Records:
    """A world's files and one reader over them."""

    files: LogFiles

    @cached_property
    def reader(self) -> Reader:
        """Reads histories once."""
        return Reader(self.files, part=True)

    def dataset(self, span: Span, households: float = 1.0) -> tuple[Dataset, Truth]:
        """Rows of a span of weeks.

        Args:
            span: which weeks; days after the last published one are left out.
            households: share of them that takes part.
        """
        fit = self._rows(span.fit, households)
        judged = self._rows(span.judged, households)
        dataset = Dataset(self.reader, self.files, households, span, fit, replace(judged, labels=None))
        return dataset, self._truth(judged)

    def _rows(self, weeks: Weeks, households: float) -> Rows:
        days = [ds for ds in weeks.days if ds in self.files.labels]
        found = [taking_part(self.reader.labelled(ds), households) for ds in days]
        rows = concat(found)
        return rows.take(np.lexsort((rows.impression_id, rows.day)))

    def _truth(self, rows: Rows) -> Truth:
        assert rows.labels is not None
        bought = np.unique(self.reader.histories.fields["ad_id"].values)
        return Truth(
            label=rows.labels.label[:, 0].astype(np.float64),
            weight=rows.labels.weight[:, 0].astype(np.float64),
            user_id=rows.columns["user_id"].values.astype(np.int64),
            week=weeks_of(rows.day),
            sold=np.isin(rows.columns["ad_id"].values, bought),
            surface=rows.columns["surface"].values,
        )


def open_records(world: "World", last: str, build: bool = True) -> Records:
    """A world's files up to a day.

    Args:
        world: with the fields of the real one.
        last: newest day.
        build: make the tables of days that are missing; otherwise end before the first of them.
    """
    from features.schema_of import schema_of
    from orchestration.resources import WorldResource
    from training.chain import day_files

    tables = WorldResource(world_name=world.name).tables()

    def published() -> set[str]:
        return set(tables.readable_days("labels")) & set(tables.readable_days("examples"))

    if build:
        build_missing(world, published(), last)
    have = published()
    days = list(takewhile(have.__contains__, day_range(world.first_day, last)))
    return Records(
        LogFiles(
            schema=schema_of(world).part(SURFACES, (TASK,)),
            seed=0,
            examples=day_files(tables, "examples", days),
            labels=day_files(tables, "labels", days),
            user_history=day_files(tables, "user_history", days),
            events=day_files(tables, "events", days),
        )
    )


def taking_part(rows: Rows, households: float) -> Rows:
    """The rows of a share of the households, chosen by a hash of their id."""
    if households >= 1:
        return rows
    return rows.take(np.flatnonzero(unit_hash(rows.columns["user_id"].values) < households))


def unit_hash(ids: np.ndarray) -> Floats:
    """Ids to numbers in [0, 1): the last step of splitmix64."""
    bits = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (bits ^ (bits >> np.uint64(31))).astype(np.float64) / 2.0**64


def weeks_of(day: np.ndarray) -> Integers:
    """Promotion weeks of day ordinals."""
    return (day - WEEK_ONE.toordinal()) // 7 + 1


def iso(day: int) -> str:
    """An ordinal as YYYY-MM-DD."""
    return date.fromordinal(int(day)).isoformat()


def concat(parts: list[Rows]) -> Rows:
    """Labelled rows one after another."""
    columns = {
        name: Column(
            *(np.concatenate([getattr(part.columns[name], what) for part in parts]) for what in Column._fields)
        )
        for name in parts[0].columns
    }
    labels = [part.labels for part in parts if part.labels is not None]
    joined = type(labels[0])(*(np.concatenate(arrays) for arrays in zip(*labels, strict=True)))
    return Rows(columns, np.concatenate([part.day for part in parts]), joined)
