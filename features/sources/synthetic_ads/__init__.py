"""`synthetic_ads`: auctions whose every true probability is known; labelled synthetic wherever it shows.

Every number is a hash of the seed and keys (`draws`), so a day's rows depend on options and day alone, whichever days
are asked together and however Spark splits them. `probabilities` holds the equations, `behaviour` the states of users
behind them, `truth` what evaluation reads and nothing else does.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.sources.base import Extracted
from features.sources.canonical import conform
from features.sources.sampling import sample
from features.sources.synthetic_ads import ads, behaviour, people
from features.sources.synthetic_ads import parameters as P
from features.sources.synthetic_ads.delays import within_window
from features.sources.synthetic_ads.outcomes import arrivals, clicked, drawn, responses, union
from features.sources.synthetic_ads.parameters import Setting
from features.sources.synthetic_ads.requests import DAY_US, named
from features.worlds.schema import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check(world: World) -> None:
    """Refuse options, tasks and surfaces that this log does not have.

    Raises:
        WorldError: names the key.
    """
    Setting.of(world)
    within_window(world)


def extract(spark: "SparkSession", world: World, days: Sequence[str]) -> Extracted:
    """Canonical frames of the given days; nothing is refused.

    Raises:
        WorldError: options, tasks or surfaces that this log does not have.
    """
    check(world)
    setting = Setting.of(world)
    arrived = arrivals(spark, setting, days)
    frames = {
        "impressions": impressions(spark, setting, days),
        "outcomes": arrived,
        "events": union([behaviour.events(spark, setting, days), responses(arrived)]),
        "users": people.users(spark, setting, days),
        "ads": ads.ads(spark, setting, days),
    }
    return Extracted({table: conform(frame, table, world) for table, frame in frames.items()})


def impressions(spark: "SparkSession", setting: Setting, days: Sequence[str]) -> "DataFrame":
    """Candidates of the given days, sampled as the world says."""
    day = F.date_from_unix_date(F.floor(F.col("request_us") / DAY_US).cast("int"))
    shown = drawn(spark, setting, days).withColumn("surface", named(F.col("surface_index"), P.SURFACES))
    return sample(shown, setting.world, clicked(setting)).select(
        *("impression_id", "request_id", "ad_id", "surface", "position", "keep_rate", "value"),
        (F.col("user") + people.FIRST_ID).alias("user_id"),
        F.timestamp_micros("request_us").alias("request_ts"),
        named(F.col("objective_index"), P.OBJECTIVES).alias("objective"),
        named(F.col("format_index"), P.FORMATS).alias("format"),
        F.col("device").alias("context_device"),
        F.col("page").alias("context_page"),
        F.col("measurement").alias("context_measurement"),
        F.date_format(day, "yyyy-MM-dd").alias("ds"),
    )
