"""Users: who is there, since when, and what is true of them; all of it follows from a user's number."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.sources.synthetic_ads import parameters as P
from features.sources.synthetic_ads.draws import Draws, Numbers, lookup
from features.sources.synthetic_ads.parameters import Setting

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FIRST_ID = 1_000_001


def count_on(setting: Setting, day: "Column | int") -> "Column":
    """Users that have joined by a day: numbers 0 ... count - 1."""
    days = (F.lit(day) if isinstance(day, int) else day) - setting.first
    span = P.JOINING * (setting.last - setting.first)
    return (F.lit(setting.users) + F.floor(days * setting.users / span)).cast("bigint")


def join_day(setting: Setting, user: "Column") -> "Column":
    """First day of a user: the smallest with `count_on` above its number, for early users that of the log."""
    late = user - setting.users + 1
    span = P.JOINING * (setting.last - setting.first)
    joined = F.lit(setting.first) + F.ceil(late * span / setting.users)
    return F.when(late <= 0, F.lit(setting.start)).otherwise(joined).cast("bigint")


def described(draws: Draws, user: "Column") -> "dict[str, Column]":
    """Attributes, each uniform over its values and independent of the others."""
    return {
        "age": draws.below("age", P.AGES, user),
        "income": draws.below("income", P.INCOMES, user),
        "country": draws.below("country", P.COUNTRIES, user),
    }


def taste(draws: Draws, user: "Column") -> "Column":
    """Hidden factors of a user: array of `RANK` standard normals."""
    return F.array(*(draws.normal("taste", user, k) for k in range(P.RANK)))


def preference(seed: int, taste_of: "Column", category: "Column") -> "Column":
    """A user's liking of a category, variance about 1: the product of their factors over the root of their number."""
    numbers = Numbers(seed)
    parts = []
    for k in range(P.RANK):
        factors = [numbers.normal("category", c, k) for c in range(P.CATEGORIES)]
        parts.append(taste_of[k] * lookup(factors, category))
    return sum(parts[1:], parts[0]) / F.lit(P.RANK**0.5)


def users(spark: "SparkSession", setting: Setting, days: Sequence[str]) -> "DataFrame":
    """Rows of `users`: known from the day before a user joins, early ones from the log's first day."""
    draws = Draws(setting.options.seed)
    most = setting.users + setting.users // P.JOINING
    user = F.col("id")
    known = F.greatest(F.lit(setting.first), join_day(setting, user) - 1)
    frame = spark.range(most).withColumn("ds", F.date_format(F.date_from_unix_date(known.cast("int")), "yyyy-MM-dd"))
    at = F.to_timestamp("ds")
    return frame.where(F.col("ds").isin(list(days))).select(
        (user + FIRST_ID).alias("user_id"),
        at.alias("event_timestamp"),
        at.alias("available_ts"),
        *(column.alias(name) for name, column in described(draws, user).items()),
        "ds",
    )
