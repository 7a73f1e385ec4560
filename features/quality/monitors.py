"""What is watched over time in each table: its clock, its main features, its rates and what it refers to.

Suites (`suites.py`) say what every row must be; monitors say which numbers of a day are compared with its own
bounds and with the days before (`statistics.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from features.schema_of import ad_statistics, user_statistics
from features.worlds.schema import World

if TYPE_CHECKING:
    from features.tables.specs import TableSpec


@dataclass(frozen=True)
class Monitor:
    """What is watched of one table.

    Attributes:
        clock: column of instants that no row may have after its day; empty when the table has none.
        within: whether no row may have one before its day either (an outcome may arrive days later).
        features: columns whose distribution is compared with the days before.
        rate: (group column, column of zeros and ones): the share of ones of each group is compared.
        nullable: column -> share of rows without a value from which on that is worth a warning.
        parents: (table, columns): each row must have a partner there.
        kept: smallest share of raw rows that sampling keeps, by which refused rows are set against raw ones.
    """

    clock: str = ""
    within: bool = False
    features: tuple[str, ...] = ()
    rate: tuple[str, str] | None = None
    nullable: dict[str, float] = field(default_factory=dict)
    parents: tuple[tuple[str, tuple[str, ...]], ...] = ()
    kept: float = 1.0


def monitor_of(spec: "TableSpec", world: World) -> Monitor:
    """The monitor of a table; one that nothing is declared for has its rows and nulls watched."""
    return MONITORS.get(spec.suite or spec.name, _plain)(world)


def _plain(_world: World) -> Monitor:
    return Monitor()


def _impressions(world: World) -> Monitor:
    features = ("surface", "position", "value", "objective", "format", *world.context_columns)
    kept = min(surface.keep_rate for surface in world.surfaces)
    return Monitor(clock="request_ts", within=True, features=features, nullable={"user_id": 0.5}, kept=kept)


def _behaviour(_world: World) -> Monitor:
    return Monitor(clock="event_ts", features=("event_type", "surface", "value"))


def _examples(world: World) -> Monitor:
    # not the weekday, which is another one every day
    names = [feature.name for feature in world.categorical if not feature.multi and feature.name != "weekday"]
    dense = [feature.name for feature in (*user_statistics(world), *ad_statistics(world))]
    parents = (("impressions", ("ds", "impression_id")),)
    return Monitor(clock="request_ts", within=True, features=(*names, *dense), parents=parents)


def _labels(_world: World) -> Monitor:
    return Monitor(rate=("task", "label"), parents=(("impressions", ("ds", "impression_id")),))


def _user_stats(world: World) -> Monitor:
    return Monitor(features=tuple(feature.name for feature in user_statistics(world)))


def _ad_stats(world: World) -> Monitor:
    return Monitor(features=tuple(feature.name for feature in ad_statistics(world)))


def _predictions(_world: World) -> Monitor:
    return Monitor(features=("prediction",))


MONITORS: dict[str, Callable[[World], Monitor]] = {
    "impressions": _impressions,
    "outcomes": _behaviour,
    "events": _behaviour,
    "user_stats": _user_stats,
    "ad_stats": _ad_stats,
    "examples": _examples,
    "labels": _labels,
    "predictions": _predictions,
}
