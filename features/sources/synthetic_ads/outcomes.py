"""What follows an impression: the funnel drawn from the true probabilities, with its delays, by day of arrival.

An outcome is drawn with its own hash of the impression, so the day on which it arrives can be generated alone, from
the auctions of the days before it as far back as `HORIZON_DAYS`.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.days import shift
from features.sources.synthetic_ads import parameters as P
from features.sources.synthetic_ads import people
from features.sources.synthetic_ads.delays import EXPONENTIAL, LOGNORMAL, REPORT_S
from features.sources.synthetic_ads.draws import Draws, sealed
from features.sources.synthetic_ads.parameters import Setting, number_of
from features.sources.synthetic_ads.probabilities import TASKS, with_probabilities
from features.sources.synthetic_ads.requests import DAY_US, auctions, named

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

BEFORE = TASKS | {"click": "view"}
"""Outcome -> the one that has to come first."""
SECOND_US = 1_000_000


def drawn(spark: "SparkSession", setting: Setting, days: Sequence[str]) -> "DataFrame":
    """Candidates of the given days with `with_probabilities` and `<task>_us`: delay in microseconds, null if never."""
    draws = Draws(setting.options.seed)
    frame = with_probabilities(setting, auctions(spark, setting, days))
    for task, before in BEFORE.items():
        happens = draws.uniform(f"{task} happens", F.col("impression_id")) < F.col(f"q_{task}")
        delay = F.ceil(_seconds(draws, task) * SECOND_US).cast("bigint")
        if before is not None:
            # no earlier than a second after the one before; null when that never came
            reached = F.col(f"{before}_us") + SECOND_US
            delay = F.when(reached.isNotNull(), F.greatest(delay, reached))
        frame = sealed(frame.withColumn(f"{task}_us", F.when(happens, delay)))
    return frame


def _seconds(draws: Draws, task: str) -> "Column":
    key = F.col("impression_id")
    if task in EXPONENTIAL:
        return draws.exponential(f"{task} delay", EXPONENTIAL[task], key)
    median, deviation = LOGNORMAL[task]
    return F.lit(median) * F.exp(deviation * draws.normal(f"{task} delay", key))


def clicked(setting: Setting) -> "Column":
    """Whether a candidate of `drawn` has a positive of the primary task: a click inside its window."""
    window = next(task.window for task in setting.world.tasks if task.name == "click")
    assert window is not None
    return F.coalesce(F.col("click_us") <= window // timedelta(microseconds=1), F.lit(False))


def arrivals(spark: "SparkSession", setting: Setting, days: Sequence[str]) -> "DataFrame":
    """Outcomes that arrive on the given days, with the ad's category, aisle and brand."""
    back = sorted({shift(ds, -gap) for ds in days for gap in range(P.HORIZON_DAYS + 1)} & set(setting.open_days))
    frame = drawn(spark, setting, back)
    outcomes = F.filter(F.array(*(_outcome(task) for task in TASKS)), lambda outcome: outcome["delay"].isNotNull())
    rows = frame.select("*", F.explode(outcomes).alias("outcome"))
    at, key = F.col("request_us") + F.col("outcome.delay"), F.col("impression_id")
    arrived = at + F.when(F.col("outcome.kind") == "offsite", _report(setting, key)).otherwise(0)
    day = F.floor(arrived / DAY_US).cast("int")
    # the same for every asked day, so that a range gives what its days give one by one
    soon = day - F.col("day") <= P.HORIZON_DAYS
    asked = [number_of(ds) for ds in days if number_of(ds) <= setting.last]
    return rows.where(soon & day.isin(asked)).select(
        "request_id",
        (F.col("user") + people.FIRST_ID).alias("user_id"),
        "ad_id",
        F.col("outcome.kind").alias("event_type"),
        F.timestamp_micros(at).alias("event_ts"),
        _value().alias("value"),
        named(F.col("surface_index"), P.SURFACES).alias("surface"),
        *("category", "aisle", "brand"),
        F.date_format(F.date_from_unix_date(day), "yyyy-MM-dd").alias("ds"),
    )


def _outcome(task: str) -> "Column":
    return F.struct(F.lit(task).alias("kind"), F.col(f"{task}_us").alias("delay"))


def _report(setting: Setting, key: "Column") -> "Column":
    lag = next(task.lag for task in setting.world.tasks if task.name == "offsite") // timedelta(microseconds=1)
    delay = Draws(setting.options.seed).exponential("report", REPORT_S * SECOND_US, key)
    return F.least(F.floor(delay).cast("bigint"), F.lit(lag))


def _value() -> "Column":
    """Money of a purchase, on site or off; it grows with the price band."""
    paid = F.round(F.lit(10.0) * F.pow(F.lit(1.6), F.col("price")), 2)
    return F.when(F.col("outcome.kind").isin("purchase", "offsite"), paid)


def responses(arrived: "DataFrame") -> "DataFrame":
    """Outcomes as events of a user's history: all but views."""
    return arrived.where(F.col("event_type") != "view")


def union(frames: "Sequence[DataFrame]") -> "DataFrame":
    """Rows of all frames; a column that one lacks is null there."""
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)
