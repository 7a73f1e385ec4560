"""What rows refer to: partners that must be there, and the share of partners that is compared with the days before.

Partners are looked for on the days that the rows were made from (`features.tables.lineage`), so the audit of a day
reads no more of the past than making it did.
"""

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from features.days import day_range
from features.quality.monitors import Monitor
from features.worlds.schema import Task, World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from features.quality.past import Past
    from features.tables.specs import TableSpec

Matched = dict[str, dict[str, tuple[int, int]]]
"""Name of a reference -> day -> (rows with a partner, rows)."""


def orphans_of(
    staged: "DataFrame", spec: "TableSpec", world: World, monitor: Monitor, past: "Past", days: Sequence[str]
) -> dict[str, dict[str, int | None]]:
    """Day -> parent table -> staged rows without a partner; None where the parent was never published."""
    found: dict[str, dict[str, int | None]] = {ds: {} for ds in days}
    for table, columns in monitor.parents:
        parents = past.frame(table, made_from(spec.name, table, world, days))
        lost: dict[str, int] = {}
        if parents is not None:
            alone = staged.join(parents.select(*columns), list(columns), "left_anti")
            lost = {row[spec.partition]: row["count"] for row in alone.groupBy(spec.partition).count().collect()}
        for ds in days:
            found[ds][table] = None if parents is None else lost.get(ds, 0)
    return found


def made_from(table: str, parent: str, world: World, days: Sequence[str]) -> list[str]:
    """Days of a parent table from which days of a table are made."""
    from features.tables.lineage import windows_of

    first, last = max(min(days), world.first_day), max(days)
    return day_range(windows_of(table, world, first)[parent][0], windows_of(table, world, last)[parent][1])


def matched_of(
    staged: "DataFrame", spec: "TableSpec", world: World, past: "Past", days: Sequence[str], before: Sequence[str]
) -> Matched:
    """Shares of partners on `days` and the published days `before`, of what the table makes known of others."""
    if spec.name == "impressions":
        return _ads_known(staged, world, past, before)
    if spec.name == "labels":
        return _outcomes_matched(world, past, [*before, *days])
    return {}


def _ads_known(staged: "DataFrame", world: World, past: "Past", before: Sequence[str]) -> Matched:
    """Impressions whose ad had attributes on their day."""
    from pyspark.sql import functions as F

    ads, shown = past.frame("ads"), staged.select("ds", "ad_id")
    if ads is None or not world.ads.attributes:
        return {}
    earlier = past.frame("impressions", before)
    if earlier is not None:
        shown = shown.union(earlier.select("ds", "ad_id"))
    known = ads.groupBy("ad_id").agg(F.min("ds").alias("known"))
    joined = shown.join(known, "ad_id", "left")
    return _counted([joined.select(F.lit("ads with attributes").alias("name"), "ds", F.col("known") <= F.col("ds"))])


def _outcomes_matched(world: World, past: "Past", days: Sequence[str]) -> Matched:
    """Outcomes of each task's event that have an impression to belong to."""
    outcomes = past.frame("outcomes", days)
    impressions = past.frame("impressions", made_from("labels", "impressions", world, days))
    if outcomes is None or impressions is None:
        return {}
    return _counted([_outcomes_of(task, outcomes, impressions) for task in world.tasks])


def _outcomes_of(task: Task, outcomes: "DataFrame", impressions: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F

    keys: list[str] = list(task.match)
    shown = impressions.groupBy(*keys).agg(F.min("ds").alias("shown"))
    joined = outcomes.where(F.col("event_type") == task.event).join(shown, keys, "left")
    return joined.select(F.lit(f"outcomes of {task.name}").alias("name"), "ds", F.col("shown") <= F.col("ds"))


def _counted(parts: "Sequence[DataFrame]") -> Matched:
    from pyspark.sql import functions as F

    rows = reduce(lambda left, right: left.union(right), parts).toDF("name", "ds", "has")
    held = F.count(F.when(F.col("has"), 1)).alias("held")
    found: Matched = {}
    for row in rows.groupBy("name", "ds").agg(held, F.count(F.lit(1)).alias("rows")).collect():
        found.setdefault(row["name"], {})[row["ds"]] = (row["held"], row["rows"])
    return found
