"""Direct mail: coupons of campaign types B and C as impressions, and their redemptions as outcomes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.sources.complete_journey.raw import Raw, week_column
from features.sources.sampling import sample

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SURFACE = "direct_mail"
SENT_TO_ALL = ("Type B", "Type C")
"""Campaign types that send every coupon to every household on the list."""


def offers(raw: Raw, days: Sequence[str]) -> "DataFrame":
    """Impressions of the surface `direct_mail` whose campaign starts on one of the days."""
    frame = offered(raw).where(F.col("ds").isin(raw.open_days(days))).withColumn("surface", F.lit(SURFACE))
    frame = frame.withColumn("impression_id", F.xxhash64("request_id", "ad_id"))
    # no primary task exists on this surface, so no row is kept for being positive
    return sample(frame, raw.world, F.lit(False))


def offered(raw: Raw) -> "DataFrame":
    """Household x coupon of all campaigns, before sampling."""
    sent = raw.table("campaign_descriptions").where(F.col("campaign_type").isin(*SENT_TO_ALL))
    received = raw.table("campaigns").join(F.broadcast(raw.households), "household_id", "left_semi")
    coupons = raw.table("coupons").select("campaign_id", "coupon_upc").distinct()
    first, after = F.to_date("start_date"), F.date_add(F.to_date("end_date"), 1)
    return (
        received.join(F.broadcast(sent), "campaign_id")
        .join(coupons, "campaign_id")
        .select(
            _request_id().alias("request_id"),
            F.col("household_id").alias("user_id"),
            F.col("coupon_upc").alias("ad_id"),
            _midnight(first, raw).alias("request_ts"),
            _midnight(after, raw).alias("window_end"),
            week_column(first).alias("context_week_of_year"),
            first.cast("string").alias("ds"),
        )
    )


def redemptions(raw: Raw, days: Sequence[str]) -> "DataFrame":
    """Outcomes `redeem` of the slice, stamped at local midnight as only the day is known."""
    redeemed = raw.table("coupon_redemptions").join(F.broadcast(raw.households), "household_id", "left_semi")
    day = F.to_date("redemption_date")
    return redeemed.where(day.cast("string").isin(raw.open_days(days))).select(
        _request_id().alias("request_id"),
        F.col("household_id").alias("user_id"),
        F.col("coupon_upc").alias("ad_id"),
        F.lit("redeem").alias("event_type"),
        _midnight(day, raw).alias("event_ts"),
        day.cast("string").alias("ds"),
    )


def _request_id() -> "Column":
    return F.xxhash64("campaign_id", "household_id")


def _midnight(day: "Column", raw: Raw) -> "Column":
    """First instant of a local day."""
    return F.to_utc_timestamp(day.cast("timestamp"), raw.world.timezone)
