"""Baskets against the products that their store promoted that week: sampled while they are paired."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.sources.complete_journey.raw import Raw, week_of
from features.sources.sampling import kept, sample

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REQUEST = ["request_id", "user_id", "request_ts", "store_id", "week", "ds"]
MAILER, DISPLAY, BOTH = "mailer", "store_display", "mailer_and_display"


def requests(raw: Raw, days: Sequence[str]) -> "DataFrame":
    """One row a basket: `REQUEST`."""
    baskets = raw.open_purchases(days).withColumnsRenamed(
        {"basket_id": "request_id", "household_id": "user_id", "ts": "request_ts"}
    )
    return baskets.select(*REQUEST).distinct()


def promotions(raw: Raw, days: Sequence[str]) -> "DataFrame":
    """Promotion rows of the given days' weeks, repeats included: ad_id, store_id, week, two codes."""
    weeks = sorted({week_of(ds) for ds in raw.open_days(days)})
    codes = {"product_id": "ad_id", "display_location": "display", "mailer_location": "mailer"}
    return raw.table("promotions").where(F.col("week").isin(weeks)).withColumnsRenamed(codes)


def promoted_impressions(raw: Raw, days: Sequence[str]) -> "DataFrame":
    """Kept impressions of the store surfaces."""
    promoted = promotions(raw, days)
    pairs = _kept_pairs(raw, promoted, requests(raw, days)).unionByName(_bought_pairs(raw, promoted, days))
    merged = pairs.groupBy("impression_id", "ad_id", *REQUEST).agg(
        F.max("display").alias("display"), F.max("mailer").alias("mailer"), F.max("bought").alias("bought")
    )
    sampled = sample(merged.withColumn("surface", surface_of()), raw.world, F.col("bought"))
    return sampled.select(
        *("impression_id", "request_id", "user_id", "ad_id", "surface", "request_ts", "keep_rate", "ds"),
        F.col("store_id").alias("context_store"),
        F.xxhash64("display").alias("context_display"),
        F.xxhash64("mailer").alias("context_mailer"),
        F.col("week").alias("context_week_of_year"),
    )


def surface_of() -> "Column":
    """Surface from the codes `display` and `mailer`; '0' means "not there"."""
    in_mailer, on_display = F.col("mailer") != "0", F.col("display") != "0"
    return F.when(in_mailer & on_display, BOTH).when(in_mailer, MAILER).when(on_display, DISPLAY)


def impression_id() -> "Column":
    """An impression is one product of one request."""
    return F.xxhash64("request_id", "ad_id")


def _kept_pairs(raw: Raw, promoted: "DataFrame", baskets: "DataFrame") -> "DataFrame":
    """Pairs below the largest rate of any surface: its own rate follows once duplicate codes are merged.

    The join emits a pair only after its hash was taken, so what is dropped is never a row.
    """
    largest = max(entry.keep_rate for entry in raw.world.surfaces if entry.name in (MAILER, DISPLAY, BOTH))
    paired = promoted.join(F.broadcast(baskets), ["store_id", "week"]).where(kept(impression_id(), F.lit(largest)))
    return _identified(paired, bought=False)


def _bought_pairs(raw: Raw, promoted: "DataFrame", days: Sequence[str]) -> "DataFrame":
    """Purchases of promoted products: the primary positives."""
    names = {"basket_id": "request_id", "household_id": "user_id", "ts": "request_ts", "product_id": "ad_id"}
    bought = raw.open_purchases(days).withColumnsRenamed(names).select("ad_id", *REQUEST)
    return _identified(promoted.join(bought, ["store_id", "week", "ad_id"]), bought=True)


def _identified(pairs: "DataFrame", *, bought: bool) -> "DataFrame":
    return pairs.select(
        impression_id().alias("impression_id"),
        "ad_id",
        *REQUEST,
        "display",
        "mailer",
        F.lit(bought).alias("bought"),
    )
