"""The rows a model is judged on: labels that became due, beside predictions made before training on them.

*As served*: each pair's earliest prediction by the accepted chain of models. *Gate*: primary pairs with the
prediction that a model gave to what became due on the very day it was scored for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from features.days import day_range, shift
from training.lines import Line

if TYPE_CHECKING:
    import pandas as pd

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
    """A line's pairs that became due from `first` to `last`, with what slices and baselines need of their examples.

    Returns:
        Columns label_ds, ds, impression_id, task, label, weight, user_id, ad_id, surface.
    """
    labels = tables.read("labels", day_range(max(first, tables.world.first_day), last))
    days = [ds for ds in tables.readable_days("examples") if ds <= last]
    examples = tables.read("examples", days).select("ds", "impression_id", "user_id", "ad_id", "surface")
    own = labels.where(labels["task"].isin(list(line.tasks)))
    shown = examples.where(examples["surface"].isin(list(line.surfaces)))
    frame: pd.DataFrame = own.join(shown, ["ds", "impression_id"]).toPandas()
    return frame.astype({"user_id": "Int64"}).sort_values(["label_ds", *PAIR], ignore_index=True)


def predictions_of(tables: "Tables", line: Line, scored: Sequence[Scored]) -> "pd.DataFrame":
    """Predictions that the named models of a line gave on the named days.

    Returns:
        Columns scored_ds, ds, impression_id, task, digest, prediction.
    """
    chosen = tables.spark.createDataFrame(
        [(entry.ds, entry.digest) for entry in scored], "scored_ds STRING, digest STRING"
    )
    frame = tables.read(line.predictions, sorted({entry.ds for entry in scored})).join(chosen, ["scored_ds", "digest"])
    return frame.toPandas()


def as_served(pairs: "pd.DataFrame", given: "pd.DataFrame") -> "pd.DataFrame":
    """Pairs beside the earliest prediction that they got; pairs never scored are left out."""
    first = given.sort_values("scored_ds").drop_duplicates(PAIR)
    return pairs.merge(first[[*PAIR, "prediction"]], on=PAIR, validate="many_to_one")


def gate_rows(pairs: "pd.DataFrame", given: "pd.DataFrame", primary: Sequence[str]) -> "pd.DataFrame":
    """Primary pairs beside the prediction of the model that was scored for the day they became due."""
    due = pairs[pairs["task"].isin(list(primary))]
    keys = ["label_ds", *PAIR]
    return due.merge(
        given.rename(columns={"scored_ds": "label_ds"})[[*keys, "prediction"]], on=keys, validate="one_to_one"
    )


def window_start(tables: "Tables", ds: str, days: int) -> str:
    """First of `days` days that end with `ds`, not before the world's first."""
    return max(shift(ds, 1 - days), tables.world.first_day)
