"""The truth table: the probability of every task of every candidate, for evaluation and for nothing else.

It lies in the world's home beside the tables, not among them: it has no gate, no asset makes it, and nothing of the
graph reads it. It is written when evaluation first asks for a day, under the hash of the generator.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.home import Home
from features.sources.synthetic_ads import parameters as P
from features.sources.synthetic_ads import people
from features.sources.synthetic_ads.outcomes import drawn
from features.sources.synthetic_ads.parameters import Setting, parameters_hash
from features.sources.synthetic_ads.probabilities import TASKS, with_probabilities
from features.sources.synthetic_ads.requests import auctions, named
from features.worlds.schema import World

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PAIR = ("ds", "impression_id", "task")


def truth(spark: "SparkSession", world: World, days: Sequence[str]) -> "DataFrame":
    """True probabilities of the given days, of the whole log: before any sampling.

    Returns:
        ds, impression_id, request_id, user_id, ad_id, surface, value, task, probability (of the label, given that of
        the parent task) and marginal (without that condition); a row a task that exists on the surface.
    """
    setting = Setting.of(world)
    return _long(with_probabilities(setting, auctions(spark, setting, days)))


def drawn_labels(spark: "SparkSession", world: World, days: Sequence[str]) -> "DataFrame":
    """The labels that the log will give, ahead of their windows: PAIR and label, where the parent's is 1."""
    setting = Setting.of(world)
    frame = drawn(spark, setting, days)
    made: dict[str, Column] = {}
    for task in world.tasks:
        assert task.window is not None
        inside = F.coalesce(F.col(f"{task.name}_us") <= int(task.window.total_seconds() * 1e6), F.lit(False))
        made[task.name] = inside & made[task.parent] if task.parent else inside
    rows = [
        F.when(
            F.col(f"p_{task.name}").isNotNull() & (made[task.parent] if task.parent else F.lit(True)),
            F.struct(F.lit(task.name).alias("task"), made[task.name].cast("double").alias("label")),
        )
        for task in world.tasks
    ]
    spread = frame.select(_day().alias("ds"), "impression_id", F.explode(F.array(*rows)).alias("row"))
    return spread.where("row is not null").select("ds", "impression_id", "row.task", "row.label")


def stored_truth(spark: "SparkSession", world: World, days: Sequence[str], home: Home) -> "DataFrame":
    """`truth` of the given days, written on the first call and read on the next."""
    folder = truth_folder(home, world)
    opened = [ds for ds in days if ds in Setting.of(world).open_days]
    missing = [ds for ds in opened if not (folder / f"ds={ds}").exists()]
    if missing:
        # files of these days appear together, once all are written
        writer = truth(spark, world, missing).write.option("partitionOverwriteMode", "dynamic")
        writer.mode("overwrite").partitionBy("ds").parquet(str(folder))
    stored = spark.read.parquet(str(folder)).withColumn("ds", F.col("ds").cast("string"))
    return stored.where(F.col("ds").isin(opened))


def truth_folder(home: Home, world: World) -> Path:
    """Where the truth of a world's present generator lies."""
    return home.root / "truth" / parameters_hash(Setting.of(world).options)


def _long(frame: "DataFrame") -> "DataFrame":
    marginal: dict[str, Column] = {}
    for task, parent in TASKS.items():
        own = F.col(f"p_{task}")
        marginal[task] = own * marginal[parent] if parent else own
    rows = [
        F.struct(F.lit(task).alias("task"), F.col(f"p_{task}").alias("probability"), marginal[task].alias("marginal"))
        for task in TASKS
    ]
    spread = frame.withColumn("row", F.explode(F.array(*rows))).where("row.probability is not null")
    return spread.select(
        _day().alias("ds"),
        *("impression_id", "request_id", "ad_id", "value"),
        (F.col("user") + people.FIRST_ID).alias("user_id"),
        named(F.col("surface_index"), P.SURFACES).alias("surface"),
        *("row.task", "row.probability", "row.marginal"),
    )


def _day() -> "Column":
    return F.date_format(F.date_from_unix_date(F.col("day").cast("int")), "yyyy-MM-dd")
