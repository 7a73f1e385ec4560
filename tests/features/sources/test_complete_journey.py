"""Complete Journey: what an impression is, counted a second time with pandas on a few households."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from features.days import day_of
from features.sources.base import extract
from features.sources.canonical import TABLES, columns_of
from features.sources.complete_journey.raw import data_folder, week_of
from features.transform.hashing import string_id
from features.transform.sampling import kept
from features.worlds import World, load_world
from features.worlds.schema import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST, LAST = "2017-05-30", "2017-06-01"
ZONE = "America/New_York"
RATE = 0.02


def _raw(name: str, **filters: Any) -> pd.DataFrame:
    return pq.read_table(data_folder() / f"{name}.parquet", **filters).to_pandas()


@pytest.fixture(scope="module")
def world() -> World:
    world = load_world("complete_journey")
    surfaces = tuple(
        entry if entry.name == "direct_mail" else entry.model_copy(update={"keep_rate": RATE})
        for entry in world.surfaces
    )
    options = Source(adapter="complete_journey", options={"households": 60})
    return world.model_copy(
        update={
            "source": options,
            "surfaces": surfaces,
            "first_day": "2017-05-29",
            "last_day": LAST,
            "closed_days": ("2017-05-29",),
        }
    )


@pytest.fixture(scope="module")
def found(spark: "SparkSession", world: World) -> dict[str, pd.DataFrame]:
    extracted = extract(spark, world, world.days())
    for table in TABLES:
        assert dict(extracted.tables[table].dtypes) == columns_of(table, world)
    return {table: frame.toPandas() for table, frame in extracted.tables.items()}


@pytest.fixture(scope="module")
def bought(found: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The slice's purchases as pandas reads them."""
    frame = _raw("transactions")
    frame = frame[frame["household_id"].isin(found["users"]["user_id"])].copy()
    frame["ds"] = frame["transaction_timestamp"].dt.tz_localize("UTC").dt.tz_convert(ZONE).dt.strftime("%Y-%m-%d")
    return frame[frame["ds"] <= LAST]


@pytest.fixture(scope="module")
def exposures(bought: pd.DataFrame) -> pd.DataFrame:
    """All presumed exposures of the days, before sampling, with merged codes."""
    days = bought[bought["ds"] >= FIRST]
    baskets = days[["basket_id", "household_id", "store_id", "week"]].drop_duplicates()
    weeks = sorted(int(week) for week in baskets["week"].unique())
    promoted = _raw("promotions", filters=[("week", "in", weeks)])
    # only what meets a basket: grouping text over whole weeks takes a minute
    promoted = promoted.merge(baskets[["store_id", "week"]].drop_duplicates())
    promoted = promoted.groupby(["product_id", "store_id", "week"], as_index=False).max()
    pairs = baskets.merge(promoted, on=["store_id", "week"])
    keys = days[["basket_id", "product_id"]].assign(bought=True)
    return pairs.merge(keys, on=["basket_id", "product_id"], how="left")


@pytest.mark.assets
def test_the_week_calendar_is_that_of_the_log(bought: pd.DataFrame) -> None:
    assert (bought["ds"].map(week_of) == bought["week"]).all()


@pytest.mark.assets
def test_positives_are_the_promoted_products_in_the_basket(
    found: dict[str, pd.DataFrame], exposures: pd.DataFrame
) -> None:
    outcomes = found["outcomes"].query("event_type == 'purchase'")[["request_id", "ad_id"]]
    positive = found["impressions"].query("surface != 'direct_mail'").merge(outcomes)
    expected = exposures[exposures["bought"].notna()]
    assert len(expected) > 50
    assert set(zip(positive["request_id"], positive["ad_id"], strict=True)) == set(
        zip(expected["basket_id"], expected["product_id"], strict=True)
    )


@pytest.mark.assets
def test_kept_negatives_are_exposures_below_their_hash(found: dict[str, pd.DataFrame], exposures: pd.DataFrame) -> None:
    shown = found["impressions"].query("surface != 'direct_mail'")
    joined = shown.merge(
        exposures,
        left_on=["request_id", "ad_id"],
        right_on=["basket_id", "product_id"],
        validate="one_to_one",
    )
    assert len(joined) == len(shown) and shown["impression_id"].is_unique
    negative = joined[joined["bought"].isna()]
    assert kept(negative["impression_id"].to_numpy(), np.full(len(negative), RATE)).all()
    share = len(negative) / exposures["bought"].isna().sum()
    assert abs(share - RATE) < 5 * np.sqrt(RATE / exposures["bought"].isna().sum())
    assert set(shown["keep_rate"]) == {RATE}


@pytest.mark.assets
def test_surface_and_context_come_from_the_merged_codes(
    found: dict[str, pd.DataFrame], exposures: pd.DataFrame
) -> None:
    shown = found["impressions"].merge(exposures, left_on=["request_id", "ad_id"], right_on=["basket_id", "product_id"])
    mailer, display = shown["mailer_location"] != "0", shown["display_location"] != "0"
    expected = np.select([mailer & display, mailer, display], ["mailer_and_display", "mailer", "store_display"], "")
    assert (shown["surface"] == expected).all() and len(set(expected)) == 3
    assert (shown["context_display"] == shown["display_location"].map(string_id)).all()
    assert (shown["context_store"] == shown["store_id"]).all()


@pytest.mark.assets
def test_events_are_all_purchases_and_earlier_ones_arrive_on_the_first_day(
    found: dict[str, pd.DataFrame], bought: pd.DataFrame, world: World
) -> None:
    events = found["events"]
    expected = bought["ds"].where(bought["ds"] > world.first_day, world.first_day).value_counts()
    assert events["ds"].value_counts().to_dict() == expected.to_dict()
    own = events["event_ts"].dt.tz_localize("UTC").map(lambda moment: day_of(moment, ZONE))
    assert (own[events["ds"] > world.first_day] == events["ds"][events["ds"] > world.first_day]).all()


@pytest.mark.assets
def test_direct_mail_is_every_coupon_of_b_and_c_campaigns_once(found: dict[str, pd.DataFrame], world: World) -> None:
    campaigns = _raw("campaign_descriptions").query("campaign_type != 'Type A'")
    starts = campaigns["start_date"].dt.strftime("%Y-%m-%d")
    campaigns = campaigns[starts.between(FIRST, LAST)]
    coupons = _raw("coupons")[["coupon_upc", "campaign_id"]].drop_duplicates()
    sent = _raw("campaigns").merge(campaigns).merge(coupons)
    sent = sent[sent["household_id"].isin(found["users"]["user_id"])]
    offers = found["impressions"].query("surface == 'direct_mail'")
    assert len(sent) > 0
    assert set(zip(offers["user_id"], offers["ad_id"], strict=True)) == set(
        zip(sent["household_id"], sent["coupon_upc"], strict=True)
    )
    assert set(offers["keep_rate"]) == {1.0} and set(offers["ad_id"]) <= set(found["ads"]["ad_id"])
    # campaign 9 runs from 2017-05-31 to 2017-07-02; midnight in New York is 04:00 UTC then
    assert set(offers["request_ts"].astype(str)) == {"2017-05-31 04:00:00"}
    assert set(offers["window_end"].astype(str)) == {"2017-07-03 04:00:00"}


@pytest.mark.assets
def test_attributes_cover_what_is_shown_and_arrive_on_the_first_day(
    found: dict[str, pd.DataFrame], world: World
) -> None:
    assert len(found["users"]) == 60
    shown = found["impressions"].query("surface != 'direct_mail'")
    catalogue = set(_raw("products", columns=["product_id"])["product_id"])
    assert set(shown["ad_id"]) & catalogue <= set(found["ads"]["ad_id"])
    for table in ("users", "ads"):
        assert set(found[table]["ds"]) == {world.first_day}
        assert set(found[table]["available_ts"].astype(str)) == {"2017-05-29 04:00:00"}
    assert found["users"]["age"].isna().any() and found["users"]["age"].notna().any()


@pytest.mark.assets
def test_a_day_alone_gives_what_the_range_gives(
    spark: "SparkSession", world: World, found: dict[str, pd.DataFrame]
) -> None:
    alone = extract(spark, world, [LAST]).tables["impressions"].toPandas()
    ranged = found["impressions"].query("ds == @LAST")
    assert len(alone) > 0
    assert set(alone["impression_id"]) == set(ranged["impression_id"])
    closed = extract(spark, world, [world.first_day]).tables
    assert closed["impressions"].count() == 0 and closed["outcomes"].count() == 0
