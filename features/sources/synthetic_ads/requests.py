"""Auctions: who asks, where, when, and which ads compete; every candidate is shown, in random order.

An ad's position has no effect on anything, so an auction can be ranked anew by any model and what the ads would have
earned is known without correcting for the ranking that was logged.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.sources.synthetic_ads import ads, people
from features.sources.synthetic_ads import parameters as P
from features.sources.synthetic_ads.draws import Draws, lookup, sealed
from features.sources.synthetic_ads.parameters import Setting, number_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

A_DAY = 1 << 32
"""Request ids of one day."""
DAY_US = 86_400_000_000


def requests(spark: "SparkSession", setting: Setting, days: Sequence[str]) -> "DataFrame":
    """One row a request of the given days: request_id, day, user, request_us, surface, device, page (indices)."""
    draws = Draws(setting.options.seed)
    counts = [setting.requests(ds) for ds in days]
    most = max([1, *counts])
    asked, number = F.floor(F.col("id") / most), F.col("id") % most
    day = lookup([float(number_of(ds)) for ds in days], asked).cast("bigint")
    frame = spark.range(len(days) * most).where(number < lookup([float(count) for count in counts], asked))
    frame = frame.select(day.alias("day"), ((day - setting.first) * A_DAY + number).alias("request_id"))
    key = F.col("request_id")
    # low numbers ask more often; users who joined late are rare
    user = F.floor(people.count_on(setting, F.col("day")) * F.pow(draws.uniform("user", key), 1.5)).cast("bigint")
    return frame.select(
        "request_id",
        "day",
        user.alias("user"),
        (F.col("day") * DAY_US + draws.below("second of day", DAY_US, key)).alias("request_us"),
        draws.chosen("surface", P.SURFACE_SHARES, key).alias("surface_index"),
        draws.chosen("device", P.DEVICE_SHARES, key).alias("device"),
        draws.below("page", P.PAGES, key).alias("page"),
    )


def auctions(spark: "SparkSession", setting: Setting, days: Sequence[str]) -> "DataFrame":
    """One row a candidate: the columns of `requests`, its own id, ad, position and value, indices of what the ad is.

    Candidates of one request come from slots of different residues, so no ad is twice in it.
    """
    draws, width = Draws(setting.options.seed), setting.options.candidates
    place = F.explode(F.sequence(F.lit(0).cast("bigint"), F.lit(width - 1).cast("bigint")))
    frame = requests(spark, setting, days).select("*", place.alias("place"))
    key, ad = F.col("impression_id"), F.col("ad_id")
    frame = frame.withColumn("impression_id", F.col("request_id") * width + F.col("place"))
    slot = F.floor(setting.slots // width * F.pow(draws.uniform("slot", key), 2.0)) * width + F.col("place")
    frame = frame.withColumn("slot", slot.cast("bigint"))
    frame = frame.withColumn("ad_id", ads.running(draws, F.col("slot"), F.col("day"), setting.start)[0])
    turn = draws.below("turn", width, F.col("request_id"))
    shown = frame.select(
        *("request_id", "impression_id", "day", "user", "request_us", "surface_index", "device", "page", "ad_id"),
        ((F.col("place") + turn) % width + 1).alias("position"),
        draws.below("ad format", len(P.FORMATS), ad).alias("format_index"),
        draws.below("ad objective", len(P.OBJECTIVES), ad).alias("objective_index"),
        draws.chosen("measurement", P.MEASUREMENT_SHARES, ad).alias("measurement"),
        bid(draws).alias("value"),
    )
    return sealed(shown)


def bid(draws: Draws) -> "Column":
    """What the advertiser pays for a click: lognormal by ad, a little different each time."""
    own = 0.5 * draws.normal("bid", F.col("ad_id")) + 0.1 * draws.normal("bid now", F.col("impression_id"))
    return F.round(F.exp(own), 4)


def named(index: "Column", names: tuple[str, ...]) -> "Column":
    """Text of an index."""
    return F.element_at(F.array(*(F.lit(name) for name in names)), index.cast("int") + 1)
