"""Complete Journey: a year of a grocery chain, read straight from the installed package's Parquet files.

What an impression is here:

- A *request* is a basket, bought in a store that has promotion data in its week; `request_ts` is the basket's
  time (one instant a basket; the seconds come from the basket number, so the order inside a basket means
  nothing). Its impressions are the products that this store promoted that week, one row each. Exposure is
  presumed. Surface: `mailer` (mailer code not '0'), `store_display` (display code not '0'),
  `mailer_and_display` (both). No row has both '0'. Negatives are sampled while products and requests are
  paired, so the 567 million presumed exposures of the year never exist as rows.
- 12,785 promotion rows repeat a key with another code (mostly display '0' and a shelf): both are true, so the
  codes merge by their maximum ('0' < digits < letters).
- *Direct mail*: household x coupon of campaign types B and C, once (4,872 coupon rows repeat); `request_ts`
  is local midnight of the start day, `window_end` the local midnight after the end day. Which 16 coupons of
  type A a household got is not recorded, so type A is not used. A coupon that two running campaigns share is
  one ad: a redemption then counts for both offers.

Stamps are UTC without a zone; promotion weeks begin on Mondays at local midnight. All purchases are `events`,
those before the world's first day arrive with it. Rows of quantity 0 (8,869; discounts booked apart) and
above 1,000 (13,494; coupons and fuel) are purchases like others: quantity is no feature. Products without a
catalogue row (4,836 purchases) keep null attributes.

The slice is the N households with the smallest xxhash64(household_id). Closed days have no requests and no
outcomes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from features.sources.base import Extracted, parse_options
from features.sources.canonical import conform
from features.sources.complete_journey.attributes import ads, check_attributes, users
from features.sources.complete_journey.mail import offers, redemptions
from features.sources.complete_journey.promoted import promoted_impressions
from features.sources.complete_journey.purchases import events, purchase_outcomes
from features.sources.complete_journey.raw import Options, Raw, data_folder
from features.worlds.schema import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check(world: World) -> None:
    """Refuse options and attributes that this log does not have.

    Raises:
        WorldError: names the key.
        GemlineError: the data package is not installed.
    """
    parse_options(Options, world)
    data_folder()
    check_attributes(world)


def extract(spark: "SparkSession", world: World, days: Sequence[str]) -> Extracted:
    """Canonical frames of the given days; nothing is refused.

    Raises:
        WorldError: options or attributes that this log does not have.
        GemlineError: the data package is not installed.
    """
    check(world)
    raw = Raw(spark, world, parse_options(Options, world))
    frames = {
        "impressions": promoted_impressions(raw, days).unionByName(offers(raw, days), allowMissingColumns=True),
        "outcomes": purchase_outcomes(raw, days).unionByName(redemptions(raw, days), allowMissingColumns=True),
        "events": events(raw, days),
        "users": users(raw, days),
        "ads": ads(raw, days),
    }
    return Extracted({table: conform(frame, table, world) for table, frame in frames.items()})
