"""All facts of a release report, gathered into plain data: decisions, quality over days, gates, features, lineage.

A line is GEM or one vertical. Missing evidence never stops a report; each place says what is missing.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from features.errors import GemlineError
from features.home import Home
from features.worlds import World
from features.worlds.schema import GEM
from orchestration.reporting.data import DataFacts, data_of
from orchestration.reporting.evaluations import Evaluation, Slice, evaluated_days, read_evaluation
from orchestration.reporting.lineage import Lineage, lineage_of
from serving import releases

if TYPE_CHECKING:
    from features.tables import Tables

NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Point:
    """A task on one judged day, all surfaces together.

    Attributes:
        ds: the day.
        slice: its metrics as served; None when nothing is known.
        note: why nothing is known, empty when something is.
    """

    ds: str
    slice: Slice | None
    note: str = ""


@dataclass(frozen=True)
class Series:
    """A task that decides about releases, over all judged days, oldest first."""

    task: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class LineFacts:
    """One model line.

    Attributes:
        name: `gem`, or the vertical's name.
        scope: surfaces and tasks, for people.
        vertical: whether it is a vertical.
        decision: promoted, carried, rejected or `NOT_JUDGED`.
        reason: of the decision; without one, why there is none.
        evaluation: of the day, None when not judged.
        recorded: decision in the ledger, empty when there is none, None when the ledger was not read.
        recorded_reason: of the ledger's decision, empty without one.
        recorded_digest: of the artefact that the ledger's decision is about, empty without one.
        live: release that is served, None when none was ever promoted.
        moves: every move of the live pointer, oldest first.
        live_note: why the pointer cannot be read, empty when it can.
        series: of each task that decides about the line's releases.
        lineage: of the day's model.
    """

    name: str
    scope: str
    vertical: bool
    decision: str
    reason: str
    evaluation: Evaluation | None
    recorded: str | None
    recorded_reason: str
    recorded_digest: str
    live: releases.Release | None
    moves: tuple[releases.Record, ...]
    live_note: str
    series: tuple[Series, ...]
    lineage: Lineage

    @property
    def judged_digest(self) -> str:
        """Digest of what was judged, empty when nothing says it."""
        return (self.evaluation.digest if self.evaluation else "") or self.recorded_digest


@dataclass(frozen=True)
class ReportFacts:
    """Everything that a report shows.

    Attributes:
        world: name of the world.
        title: of the world.
        description: of the world.
        synthetic: whether its numbers come from generated data.
        timezone: of its days.
        ds: day of the report.
        min_positives: fewer in a slice are insufficient.
        lines: GEM, then the verticals in file order.
        data: gates and features of the day.
    """

    world: str
    title: str
    description: str
    synthetic: bool
    timezone: str
    ds: str
    min_positives: int
    lines: tuple[LineFacts, ...]
    data: DataFacts = field(default_factory=DataFacts)


def gather(tables: "Tables | None", home: Home, world: World, ds: str) -> ReportFacts:
    """Gather the facts of a day.

    Args:
        tables: the world's tables; None leaves gates, features and the ledger's decisions out, and says so.
        home: the world's folder.
        world: the world.
        ds: day P, YYYY-MM-DD.
    """
    return ReportFacts(
        world=world.name,
        title=world.title,
        description=world.description,
        synthetic=world.synthetic,
        timezone=world.timezone,
        ds=ds,
        min_positives=world.min_positives,
        lines=tuple(_line(tables, home, world, name, ds) for name in line_names(world)),
        data=DataFacts() if tables is None else data_of(tables, world, ds),
    )


def line_names(world: World) -> list[str]:
    """GEM, then the verticals in file order."""
    return [GEM, *(vertical.name for vertical in world.verticals)]


def newest_day(home: Home, world: World) -> str:
    """Newest day of which some line has an evaluation.

    Raises:
        GemlineError: no line was ever judged.
    """
    days = [ds for line in line_names(world) for ds in evaluated_days(home, line)]
    if not days:
        raise GemlineError(
            f"no model of world {world.name} was judged yet, so there is nothing to report; "
            "run `gemline run` or materialize gem_evaluation of a day first, or name a day with --day"
        )
    return max(days)


def _line(tables: "Tables | None", home: Home, world: World, name: str, ds: str) -> LineFacts:
    evaluation, fault = _read(home, name, ds)
    live, moves, live_note = _live(home, name)
    made = tables.decisions.of_day(name, ds) if tables is not None else None
    return LineFacts(
        name=name,
        scope=_scope(world, name),
        vertical=name != GEM,
        decision=evaluation.decision if evaluation else NOT_JUDGED,
        reason=evaluation.reason if evaluation else fault,
        evaluation=evaluation,
        recorded=None if tables is None else (made.decision if made else ""),
        recorded_reason=made.reason if made else "",
        recorded_digest=made.digest if made else "",
        live=live,
        moves=moves,
        live_note=live_note,
        series=_series(home, world, name, ds),
        lineage=lineage_of(home, name, ds),
    )


def _read(home: Home, line: str, ds: str) -> tuple[Evaluation | None, str]:
    try:
        found = read_evaluation(home, line, ds)
    except GemlineError as error:
        return None, str(error)
    return found, "" if found else f"there is no evaluation of {line} of {ds}"


def _live(home: Home, line: str) -> tuple[releases.Release | None, tuple[releases.Record, ...], str]:
    try:
        return releases.live(home.releases, line), tuple(releases.history(home.releases, line)), ""
    except GemlineError as error:
        return None, (), str(error)


def _scope(world: World, name: str) -> str:
    if name == GEM:
        return "foundation model, all surfaces and tasks"
    vertical = world.vertical(name)
    return f"vertical: {', '.join(vertical.tasks)} on {', '.join(vertical.surfaces)}"


def _series(home: Home, world: World, name: str, last: str) -> tuple[Series, ...]:
    read = [(ds, *_read(home, name, ds)) for ds in evaluated_days(home, name) if ds <= last]
    return tuple(Series(task, tuple(_point(task, *found) for found in read)) for task in _judged_tasks(world, name))


def _judged_tasks(world: World, name: str) -> tuple[str, ...]:
    from features.schema_of import schema_of

    schema = schema_of(world)
    if name == GEM:
        return schema.judged_tasks
    vertical = world.vertical(name)
    return schema.part(vertical.surfaces, vertical.tasks).judged_tasks


def _point(task: str, ds: str, evaluation: Evaluation | None, fault: str) -> Point:
    if evaluation is None:
        return Point(ds, None, fault)
    for row in evaluation.served:
        if row.task == task and row.value is None:
            return Point(ds, row)
    return Point(ds, None, "nothing became due")
