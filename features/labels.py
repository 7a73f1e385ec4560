"""Labels by maturity: a pair (impression, task) appears on the day on which its outcome can be known.

A window's last instant is `request_ts + window`, or the microsecond before the impression's own `window_end`
(which is the first instant outside). The pair is due on the local day of that instant plus the task's lag, or
on its parent's due day if that is later: `label_ds`. Positives wait as well, so the share of positives of a
day means the same on every day.

- An outcome counts when it matches the impression's columns, is stamped in (request_ts, last instant] -
  [request_ts, ...] for tasks that say `from_request` - and arrived on a day up to the pair's `label_ds`. What
  arrives later is a late outcome: it changes no label.
- With `credit` first or last, one outcome goes to the earliest or latest of the impressions for which it
  counts.
- A task with a parent exists only where the parent's label is 1, as known on the pair's `label_ds`; on a surface
  without the parent, where the nearest ancestor's is; without any ancestor on the surface, everywhere (`Log.branches`).
- A shorter window of a task is labelled as a task of its own, apart from the credit: who gets an outcome is decided by
  the longest window, so a positive of a short window is one of the long window, unless a rival's parent became known
  only after the short one's `label_ds`.
- `weight` undoes the sampling: 1 for an impression with a positive of a primary task known by `label_ds`
  (such rows are always kept), else 1 / keep_rate.

Nothing depends on which days are asked together: a range gives what its days give one by one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.days import day_bounds, shift
from features.instants import instant, later, local_day
from features.transform.funnel import parent_on
from features.worlds.schema import Task, World

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from features.tables import Tables

OUTCOME_KEYS = ("request_id", "user_id", "ad_id")


@dataclass(frozen=True)
class Log:
    """What labels are made of.

    Attributes:
        world: names tasks and zone.
        impressions: rows of `impressions`, all that can be due on the asked days and their rivals.
        outcomes: rows of `outcomes` that arrived until the last asked day.
    """

    world: World
    impressions: "DataFrame"
    outcomes: "DataFrame"

    @cached_property
    def branches(self) -> dict[str, list[Task]]:
        """Head -> a copy of it for each set of surfaces on which its ancestors are the same, with its parent there."""
        heads, found = self.world.heads, {}
        for head in heads:
            where: dict[tuple[str, ...], list[str]] = {}
            for surface in head.surfaces or self.world.surface_names:
                where.setdefault(_ancestors(heads, head, surface), []).append(surface)
            found[head.name] = [
                head.model_copy(update={"parent": next(iter(path), None), "surfaces": tuple(surfaces)})
                for path, surfaces in where.items()
            ]
        return found

    @property
    def all_branches(self) -> list[Task]:
        """Branches of all heads."""
        return [branch for branches in self.branches.values() for branch in branches]

    def parent(self, branch: Task) -> Task | None:
        """The branch of the parent on the surfaces of a branch; None where it is direct."""
        if branch.parent is None:
            return None
        return next(one for one in self.branches[branch.parent] if branch.surfaces[0] in one.surfaces)


def _ancestors(heads: Sequence[Task], head: Task, surface: str) -> tuple[str, ...]:
    """Names of a head's ancestors on a surface, nearest first."""
    path, above = [], parent_on(heads, head.name, surface)
    while above is not None:
        path.append(above)
        above = parent_on(heads, above, surface)
    return tuple(path)


def labels(spark: "SparkSession", world: World, days: Sequence[str], tables: "Tables") -> "DataFrame":
    """Rows of `labels` for the given label days."""
    return labels_of(_log(world, days, tables), days)


def expected_pairs(spark: "SparkSession", world: World, days: Sequence[str], tables: "Tables") -> dict[str, int]:
    """Label day -> exact number of rows that `labels` must hold, counted without labelling them.

    This is what `Tables.publish(..., expected_rows=)` takes: a label join that loses or doubles pairs turns
    the day red.
    """
    counted = due_counts(_log(world, days, tables), days)
    return {ds: sum(count for (day, _), count in counted.items() if day == ds) for ds in days}


def labels_of(log: Log, days: Sequence[str]) -> "DataFrame":
    """Exactly the due pairs of the given label days.

    Args:
        log: impressions and outcomes.
        days: label days.

    Returns:
        ds, impression_id, task, label (0 or 1), weight, label_ds.
    """
    primary = primary_positives(log, log.impressions.where(_any_due(log, days)))
    parts = [_task_labels(log, task, days) for task in log.all_branches]
    pairs = reduce(lambda left, right: left.unionByName(right), parts)
    joined = pairs.join(primary, ["impression_id"], "left")
    sure = F.col("primary_known") <= F.col("label_ds")
    weight = F.when(sure, F.lit(1.0)).otherwise(F.lit(1.0) / F.col("keep_rate"))
    return joined.select("ds", "impression_id", "task", "label", weight.alias("weight"), "label_ds")


def due_counts(log: Log, days: Sequence[str]) -> dict[tuple[str, str], int]:
    """(label day, task) -> number of due pairs; absent where there are none."""
    counts: Counter[tuple[str, str]] = Counter()
    for task in log.all_branches:
        for row in _due(log, task, days).groupBy("label_ds").count().collect():
            counts[row["label_ds"], task.name] += row["count"]
    return dict(counts)


def look_back(task: Task) -> int | None:
    """Days before its label day on which a pair's impression can lie; None where each impression says so."""
    if task.window is None:
        return None
    return (task.window + task.lag).days + 2


# --------------------------------------------------------------------------------------------- reading


def _log(world: World, days: Sequence[str], tables: "Tables") -> Log:
    """Read what the asked days need: as far back as the longest window, to the first day for per-row ones."""
    first, last = min(days), max(days)
    back = reach(world)
    start = world.first_day if back is None else max(world.first_day, shift(first, -back))
    columns = ["ds", "impression_id", *OUTCOME_KEYS, "surface", "request_ts", "window_end", "keep_rate"]
    impressions = tables.read_through("impressions", last, start)
    if "window_end" not in impressions.columns:
        impressions = impressions.withColumn("window_end", F.lit(None).cast("timestamp"))
    outcomes = tables.read_through("outcomes", last, start)
    return Log(world, impressions.select(*columns), outcomes.select(*OUTCOME_KEYS, "event_type", "event_ts", "ds"))


def reach(world: World) -> int | None:
    """Days back from a label day to the oldest impression that can matter, rivals for credit included."""
    backs = [look_back(head) for head in world.heads]
    known = [back for back in backs if back is not None]
    return None if len(known) < len(backs) else 2 * max(known)


# ------------------------------------------------------------------------------------------- due pairs


def _last_instant(task: Task) -> "Column":
    if task.window is None:
        return F.timestamp_micros(F.unix_micros("window_end") - 1)
    return later(F.col("request_ts"), task.window)


def _candidates(log: Log, task: Task, days: Sequence[str]) -> "DataFrame":
    """Impressions on which a task exists apart from its parent and is due on the given days."""
    may = log.impressions.where(_may_be_due(log, task, days))
    return _timed(log, task, may).where(F.col("label_ds").isin(list(days)))


def _timed(log: Log, task: Task, impressions: "DataFrame") -> "DataFrame":
    """Impressions on which a task exists apart from its parent, with its `last_instant` and `label_ds`."""
    if set(task.surfaces) != set(log.world.surface_names):
        impressions = impressions.where(F.col("surface").isin(list(task.surfaces)))
    closes = [later(_last_instant(link), link.lag) for link in _chain(log, task)]
    due = F.greatest(*closes) if len(closes) > 1 else closes[0]
    timed = impressions.withColumns(
        {"last_instant": _last_instant(task), "label_ds": local_day(due, log.world.timezone)}
    )
    return timed.where("last_instant is not null and last_instant >= request_ts")


def _chain(log: Log, task: Task) -> list[Task]:
    links = [task]
    while (above := log.parent(links[-1])) is not None:
        links.append(above)
    return links


def _may_be_due(log: Log, task: Task, days: Sequence[str]) -> "Column":
    """A bound on stored columns that skips files of other days; the exact test on `label_ds` follows."""
    backs = [look_back(link) for link in _chain(log, task)]
    if all(back is not None for back in backs):
        return F.col("ds").between(shift(min(days), -max(back for back in backs if back is not None)), max(days))
    if len(backs) > 1:
        return F.col("ds") <= max(days)
    start, end = day_bounds(min(days), log.world.timezone)[0], day_bounds(max(days), log.world.timezone)[1]
    return (F.col("window_end") >= instant(start - task.lag)) & (F.col("window_end") <= instant(end))


def _any_due(log: Log, days: Sequence[str]) -> "Column":
    """A bound on stored columns for the impressions of which any task may be due."""
    return reduce(lambda left, right: left | right, [_may_be_due(log, task, days) for task in log.all_branches])


def _due(log: Log, task: Task, days: Sequence[str]) -> "DataFrame":
    """Due pairs of a task, before they get a label."""
    due = _candidates(log, task, days)
    if (above := log.parent(task)) is None:
        return due
    known = _known_days(log, above, due).withColumnRenamed("known_ds", "parent_ds")
    return due.join(known, "impression_id").where("parent_ds <= label_ds").drop("parent_ds")


def _task_labels(log: Log, task: Task, days: Sequence[str]) -> "DataFrame":
    due = _due(log, task, days)
    known = _known_days(log, task, due, only_due=True)
    label = F.col("known_ds").isNotNull().cast("double").alias("label")
    joined = due.join(known, "impression_id", "left")
    return joined.select("ds", "impression_id", F.lit(task.name).alias("task"), label, "keep_rate", "label_ds")


# -------------------------------------------------------------------------------------------- outcomes


def _known_days(log: Log, task: Task, wanted: "DataFrame", *, only_due: bool = False) -> "DataFrame":
    """Impressions among `wanted` whose label of `task` is 1, with the day on which that became known.

    Args:
        log: everything.
        task: whose label.
        wanted: impressions; its own `label_ds` is not used unless `only_due`.
        only_due: `wanted` are due pairs of this very task, so parent and windows need not be looked up again.

    Returns:
        impression_id, known_ds.
    """
    own = wanted if only_due else _of_task(log, task, wanted)
    claims = _claims(log, task, own)
    if task.credit != "all":
        claims = _without_rivals(log, task, claims)
    return claims.groupBy("impression_id").agg(F.min("arrived").alias("known_ds"))


def _of_task(log: Log, task: Task, wanted: "DataFrame") -> "DataFrame":
    """The same impressions under another task: its own window, due day and parent."""
    own = _timed(log, task, wanted)
    if (above := log.parent(task)) is None:
        return own
    known = _known_days(log, above, own).withColumnRenamed("known_ds", "parent_ds")
    return own.join(known, "impression_id").where("parent_ds <= label_ds").drop("parent_ds")


def _claims(log: Log, task: Task, impressions: "DataFrame") -> "DataFrame":
    """(impression, outcome) where the outcome counts; outcomes that differ in nothing are one."""
    keys: list[str] = list(task.match)
    outcomes = (
        log.outcomes.where(F.col("event_type") == task.event)
        .groupBy(*keys, "event_ts")
        .agg(F.min("ds").alias("arrived"))
    )
    joined = impressions.join(outcomes, keys)
    after = F.col("event_ts") >= F.col("request_ts") if task.from_request else F.col("event_ts") > F.col("request_ts")
    return joined.where(after & (F.col("event_ts") <= F.col("last_instant")) & (F.col("arrived") <= F.col("label_ds")))


def _without_rivals(log: Log, task: Task, claims: "DataFrame") -> "DataFrame":
    """Claims whose outcome goes to no other impression, by what was known on the claim's `label_ds`."""
    keys: list[str] = [*task.match, "event_ts"]
    place = F.struct("request_ts", "impression_id")
    parts = [_rivals(log, branch, claims) for branch in log.branches[log.world.served(task.name).name]]
    rivals = reduce(lambda left, right: left.unionByName(right), parts)
    ahead = F.col("rival") > place if task.credit == "last" else F.col("rival") < place
    contested = claims.join(rivals, keys).where(ahead & (F.col("exists_ds") <= F.col("label_ds")))
    lost = contested.select("impression_id", *keys).distinct()
    return claims.join(lost, ["impression_id", *keys], "left_anti")


def _rivals(log: Log, task: Task, claims: "DataFrame") -> "DataFrame":
    """Claims of all impressions to the outcomes of `claims`: match, event_ts, rival (its place), exists_ds."""
    match: list[str] = list(task.match)
    shown = _timed(log, task, log.impressions).join(claims.select(*match).distinct(), match, "left_semi")
    if (above := log.parent(task)) is None:
        shown = shown.withColumn("exists_ds", F.lit(""))
    else:
        known = _known_days(log, above, shown).withColumnRenamed("known_ds", "exists_ds")
        shown = shown.join(known, "impression_id")
    found = _claims(log, task, shown).where("exists_ds <= label_ds")
    return found.select(*match, "event_ts", F.struct("request_ts", "impression_id").alias("rival"), "exists_ds")


def primary_positives(log: Log, wanted: "DataFrame | None" = None) -> "DataFrame":
    """impression_id, primary_known: first day on which a primary task's label of it was known to be 1.

    Args:
        log: everything.
        wanted: of which impressions; of all when not given.
    """
    shown = log.impressions if wanted is None else wanted
    parts = [_known_days(log, branch, shown) for task in log.world.primary_tasks for branch in log.branches[task.name]]
    known = reduce(lambda left, right: left.unionByName(right), parts)
    return known.groupBy("impression_id").agg(F.min("known_ds").alias("primary_known"))
