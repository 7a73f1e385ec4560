"""Purchases seen twice: as outcomes of requests, and as behaviour that arrives on its own day."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.sources.complete_journey.attributes import catalogue
from features.sources.complete_journey.raw import Raw

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def purchase_outcomes(raw: Raw, days: Sequence[str]) -> "DataFrame":
    """All purchases of the slice on open days, in any store."""
    return _named(raw.open_purchases(days))


def events(raw: Raw, days: Sequence[str]) -> "DataFrame":
    """Purchases by day of arrival, with the product's attributes; earlier ones arrive on the first day."""
    arrival = F.greatest(F.col("ds"), F.lit(raw.world.first_day))
    arrived = raw.purchases.withColumn("ds", arrival).where(F.col("ds").isin(list(days)))
    named = _named(arrived).withColumn("store", F.col("store_id"))
    return named.join(F.broadcast(catalogue(raw)), "ad_id", "left")


def _named(purchases: "DataFrame") -> "DataFrame":
    names = {
        "basket_id": "request_id",
        "household_id": "user_id",
        "product_id": "ad_id",
        "ts": "event_ts",
        "sales_value": "value",
    }
    return purchases.withColumnsRenamed(names).withColumn("event_type", F.lit("purchase"))
