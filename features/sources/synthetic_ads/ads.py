"""Ads: slots in which one ad follows another, so that new ids keep coming and old ones end.

A slot's ads each run `life` days. Which one runs on a day follows from slot and day, and all that is true of an ad
from its id.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.sources.synthetic_ads import parameters as P
from features.sources.synthetic_ads.draws import Draws, Numbers, lookup
from features.sources.synthetic_ads.parameters import Setting, number_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FIRST_ID = 1_000_000_000
A_GENERATION = 1 << 20
"""Ids of one generation; more than there can be slots."""


def running(draws: Draws, slot: "Column", day: "Column", start: int) -> "tuple[Column, Column]":
    """Id and first day of the ad that runs in a slot on a day; `start` is any day before all others."""
    shortest, longest = P.AD_LIVES
    life = draws.below("life", longest - shortest + 1, slot) + shortest
    phase = draws.below("phase", longest, slot)
    generation = F.floor((day - start + phase) / life).cast("bigint")
    return generation * A_GENERATION + slot + FIRST_ID, generation * life - phase + start


def described(draws: Draws, ad: "Column") -> "dict[str, Column]":
    """What a log says of an ad: category, aisle, brand, price, topics and content embedding."""
    category = draws.below("ad category", P.CATEGORIES, ad)
    return {
        "category": category,
        "aisle": F.floor(category / P.AISLE).cast("bigint"),
        "brand": category * P.BRANDS_A_CATEGORY + draws.below("ad brand", P.BRANDS_A_CATEGORY, ad),
        "price": draws.below("ad price", P.PRICES, ad),
        "topics": topics(draws, ad),
        "content": embedding(draws, ad, category),
    }


def topics(draws: Draws, ad: "Column") -> "Column":
    """One to three different topics."""
    first = draws.below("topic", P.TOPICS, ad)
    second = (first + 1 + draws.below("second topic", P.TOPICS // 2 - 1, ad)) % P.TOPICS
    third = (second + 1 + draws.below("third topic", P.TOPICS // 2 - 1, ad)) % P.TOPICS
    return F.slice(F.array(first, second, third), 1, (draws.below("topics", 3, ad) + 1).cast("int"))


def embedding(draws: Draws, ad: "Column", category: "Column") -> "Column":
    """Content embedding: the category's centre plus the ad's own standard normals."""
    numbers = Numbers(draws.seed)
    parts = []
    for k in range(P.WIDTH):
        centres = [numbers.normal("centre", c, k) for c in range(P.CATEGORIES)]
        parts.append((lookup(centres, category) + draws.normal("content", ad, k)).cast("float"))
    return F.array(*parts)


def quality(draws: Draws, ad: "Column") -> "Column":
    """What the embedding says beside the category, standard normal: the mean of its own numbers, scaled."""
    parts = [draws.normal("content", ad, k) for k in range(P.WIDTH)]
    return sum(parts[1:], parts[0]) / F.lit(P.WIDTH**0.5)


def ads(spark: "SparkSession", setting: Setting, days: Sequence[str]) -> "DataFrame":
    """Rows of `ads`: known from the day before an ad starts, running ones from the log's first day."""
    draws = Draws(setting.options.seed)
    asked = F.explode(F.array(*(F.lit(number_of(ds)).cast("bigint") for ds in days)))
    frame = spark.range(setting.slots).select(F.col("id").alias("slot"), asked.alias("day"))
    ad, begun = running(draws, F.col("slot"), F.col("day") + 1, setting.start)
    frame = frame.withColumns({"ad_id": ad, "begun": begun})
    fresh = frame.where((F.col("day") == setting.first) | (F.col("begun") == F.col("day") + 1))
    ds = F.date_format(F.date_from_unix_date(F.col("day").cast("int")), "yyyy-MM-dd")
    dated = fresh.withColumn("ds", ds).where(F.col("day") <= setting.last)
    at = F.to_timestamp("ds")
    return dated.select(
        "ad_id",
        at.alias("event_timestamp"),
        at.alias("available_ts"),
        *(column.alias(name) for name, column in described(draws, F.col("ad_id")).items()),
        "ds",
    )
