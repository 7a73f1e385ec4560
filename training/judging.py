"""The rows a model is judged on: labels that became due, beside predictions made before training on them.

*As served*: each pair's earliest prediction by the accepted chain of models. *Gate*: primary pairs with the
prediction that a model gave to what became due on the very day it was scored for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from features.days import day_range, shift
from features.exact_frames import exact_frame
from training.lines import Line

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

    from features.tables import Tables

PAIR = ["ds", "impression_id", "task"]


@dataclass(frozen=True)
class Scored:
    """Which model's predictions are meant for a scored day.

    Attributes:
        ds: day P that was scored.
        digest: of the model.
    """

    ds: str
    digest: str


def due_pairs(tables: "Tables", line: Line, first: str, last: str) -> "pd.DataFrame":
    """A line's pairs that became due from `first` to `last`, as `due` has them, in order."""
    days = day_range(max(first, tables.world.first_day), last)
    return exact_frame(due(tables, line, days)).sort_values(["label_ds", *PAIR], ignore_index=True)


def due(tables: "Tables", line: Line, days: Sequence[str]) -> "DataFrame":
    """A line's pairs that became due on some days, with what slices and baselines need of their impressions.

    Returns:
        Columns label_ds, ds, impression_id, task, label, weight, request_id, user_id, ad_id, surface, value, user_seen,
        ad_seen (`seen_before`).
    """
    labels, last = tables.read("labels", days), max(days)
    own = labels.where(labels["task"].isin(list(line.tasks)))
    shown = tables.read("impressions", _days(tables, last))
    columns = ["ds", "impression_id", "request_id", "user_id", "ad_id", "surface", "value"]
    joined = own.join(shown.where(shown["surface"].isin(list(line.surfaces))).select(*columns), ["ds", "impression_id"])
    for of in ("user", "ad"):
        # those of an unknown user or ad stay unknown
        joined = joined.join(seen_before(tables, of, last), [f"{of}_id", "ds"], "left")
    return joined


def seen_before(tables: "Tables", of: str, last: str) -> "DataFrame":
    """How many impressions of each user (or ad) the log kept on the readable days before each day that has some.

    These are the rows that a model can have learned of it. The day itself does not count, and none after it.

    Args:
        tables: with `impressions` up to `last` published.
        of: `user` or `ad`.
        last: newest day.

    Returns:
        Columns `<of>_id`, ds, `<of>_seen`.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    key = f"{of}_id"
    daily = tables.read("impressions", _days(tables, last)).where(F.col(key).isNotNull()).groupBy(key, "ds").count()
    before = Window.partitionBy(key).orderBy("ds").rowsBetween(Window.unboundedPreceding, -1)
    return daily.select(key, "ds", F.coalesce(F.sum("count").over(before), F.lit(0)).alias(f"{of}_seen"))


def _days(tables: "Tables", last: str) -> list[str]:
    return [ds for ds in tables.readable_days("impressions") if ds <= last]


def predictions_of(tables: "Tables", line: Line, scored: Sequence[Scored]) -> "pd.DataFrame":
    """Predictions that the named models of a line gave on the named days.

    Returns:
        Columns scored_ds, ds, impression_id, task, digest, prediction.
    """
    chosen = tables.spark.createDataFrame(
        [(entry.ds, entry.digest) for entry in scored], "scored_ds STRING, digest STRING"
    )
    frame = tables.read(line.predictions, sorted({entry.ds for entry in scored})).join(chosen, ["scored_ds", "digest"])
    return exact_frame(frame)


def as_served(pairs: "pd.DataFrame", given: "pd.DataFrame") -> "pd.DataFrame":
    """Pairs beside the earliest prediction that they got; pairs never scored are left out."""
    first = given.sort_values("scored_ds").drop_duplicates(PAIR)
    return pairs.merge(first[[*PAIR, "prediction"]], on=PAIR, validate="many_to_one")


def gate_rows(pairs: "pd.DataFrame", given: "pd.DataFrame", primary: Sequence[str]) -> "pd.DataFrame":
    """Primary pairs beside the prediction of the model that was scored for the day they became due."""
    judged = pairs[pairs["task"].isin(list(primary))]
    keys = ["label_ds", *PAIR]
    return judged.merge(
        given.rename(columns={"scored_ds": "label_ds"})[[*keys, "prediction"]], on=keys, validate="one_to_one"
    )


def window_start(tables: "Tables", ds: str, days: int) -> str:
    """First of `days` days that end with `ds`, not before the world's first."""
    return max(shift(ds, 1 - days), tables.world.first_day)
