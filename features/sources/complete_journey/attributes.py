"""What is known of households, products and coupons; all of it is known from the world's first day on."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.days import day_bounds
from features.errors import WorldError
from features.instants import instant
from features.sources.canonical import history_columns
from features.sources.complete_journey.mail import offered
from features.sources.complete_journey.raw import Raw, week_of
from features.worlds.schema import World

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PRODUCT_TEXTS = {
    "department": "department",
    "brand": "brand",
    "category": "product_category",
    "product_type": "product_type",
    "package_size": "package_size",
}
HOUSEHOLD_TEXTS = (
    "age", "income", "home_ownership", "marital_status", "household_size", "household_comp", "kids_count",
)  # fmt: skip
CONTEXT = ("store", "display", "mailer", "week_of_year")
PRODUCT_COLUMNS = ("manufacturer", *PRODUCT_TEXTS)


def check_attributes(world: World) -> None:
    """Refuse what this log does not have.

    Raises:
        WorldError: names the section and what it may hold.
    """
    asked = {
        "users.attributes": (world.users.attributes, HOUSEHOLD_TEXTS),
        "ads.attributes": (world.ads.attributes, PRODUCT_COLUMNS),
        "context": (world.context, CONTEXT),
        "history.fields": (history_columns(world), (*PRODUCT_COLUMNS, "store")),
    }
    for section, (names, known) in asked.items():
        unknown = sorted(set(names) - set(known))
        if unknown:
            raise WorldError(f"world {world.name}: {section}: the log has no {unknown}; known: {', '.join(known)}")


def users(raw: Raw, days: Sequence[str]) -> "DataFrame":
    """Households of the slice; demographics are known for a third of them, the others have nulls."""
    known = raw.table("demographics").select("household_id", *(_hashed(name).alias(name) for name in HOUSEHOLD_TEXTS))
    frame = raw.households.join(F.broadcast(known), "household_id", "left")
    return _on_first_day(frame.withColumnRenamed("household_id", "user_id"), raw, days)


def ads(raw: Raw, days: Sequence[str]) -> "DataFrame":
    """Products that the slice can see promoted or has bought, and the coupons sent to it."""
    products = catalogue(raw).join(_reachable(raw), "ad_id", "left_semi")
    return _on_first_day(products.unionByName(_coupons(raw)), raw, days)


def catalogue(raw: Raw) -> "DataFrame":
    """ad_id and `PRODUCT_COLUMNS` of all products; blank text is null."""
    texts = [_hashed(column).alias(name) for name, column in PRODUCT_TEXTS.items()]
    manufacturer = F.col("manufacturer_id").cast("bigint").alias("manufacturer")
    return raw.table("products").select(F.col("product_id").alias("ad_id"), manufacturer, *texts)


def _reachable(raw: Raw) -> "DataFrame":
    """ad_id of every product that can stand in an impression or an event."""
    first, last = week_of(raw.world.first_day), week_of(raw.world.last_day or raw.world.first_day)
    visited = raw.purchases.where(F.col("ds") >= raw.world.first_day).select("store_id", "week").distinct()
    promoted = raw.table("promotions").where(F.col("week").between(first, last))
    promoted = promoted.join(F.broadcast(visited), ["store_id", "week"], "left_semi").select("product_id")
    return promoted.unionByName(raw.purchases.select("product_id")).distinct().withColumnRenamed("product_id", "ad_id")


def _coupons(raw: Raw) -> "DataFrame":
    """A coupon has an attribute when all products that it is good for share the value."""
    sent = offered(raw).where(F.col("ds") >= raw.world.first_day).select("ad_id").distinct()
    covered = (
        raw.table("coupons").select(F.col("coupon_upc").alias("coupon"), F.col("product_id").alias("ad_id")).distinct()
    )
    described = covered.join(F.broadcast(catalogue(raw)), "ad_id").drop("ad_id").withColumnRenamed("coupon", "ad_id")
    shared = [F.when(F.min(name) == F.max(name), F.min(name)).alias(name) for name in PRODUCT_COLUMNS]
    return sent.join(described.groupBy("ad_id").agg(*shared), "ad_id", "left")


def _on_first_day(frame: "DataFrame", raw: Raw, days: Sequence[str]) -> "DataFrame":
    first = raw.world.first_day
    since = instant(day_bounds(first, raw.world.timezone)[0])
    stamped = frame.withColumns({"event_timestamp": since, "available_ts": since, "ds": F.lit(first)})
    return stamped if first in days else stamped.where(F.lit(False))


def _hashed(column: str) -> "Column":
    return F.when(F.trim(F.col(column)) != "", F.xxhash64(F.trim(F.col(column))))
