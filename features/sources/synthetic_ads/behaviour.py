"""What users do by themselves: states that follow from (user, day), and the events that show them.

A state is closed-form, so the probability of any day needs no earlier day to be generated, and every state that a
probability uses can be read off the events of earlier days:

- *interest* of a type: a category that stays for some days; the last event of that type of a day is of it;
- *regime*: the place of the day's last events;
- *wish*: an aisle, uttered on the first days of an era and on no other;
- *restocking*: an event of the user's own aisle every so many days;
- taste: categories that a user likes come more often among the rest (`noise`), all of it before the evening.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.sources.synthetic_ads import parameters as P
from features.sources.synthetic_ads import people
from features.sources.synthetic_ads.draws import Draws, lookup
from features.sources.synthetic_ads.parameters import Setting, number_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

HOUR_US = 3_600_000_000
EVENING = 18
FIRST_ITEM = 2_000_000_000
SIGNALS = len(P.TYPES)
WISH, RESTOCK = SIGNALS + P.NOISE, SIGNALS + P.NOISE + 1
"""Numbers of a day's events: one signal a type, the noise, a wish, a restocking."""


def _spell(draws: Draws, name: str, length: "Column | int", user: "Column", day: "Column", *more: "Column") -> "Column":
    """Number of the spell of some days' length that holds a day; users begin theirs on different days."""
    phase = draws.below(f"{name} phase", 1_000, user, *more)
    return F.floor((day + phase) / length).cast("bigint")


def interest(draws: Draws, user: "Column", kind: "Column", day: "Column") -> "Column":
    """Category that a user looks for with an event type (index into `TYPES`) on a day."""
    length = lookup([float(days) for days in P.SPELLS], kind).cast("bigint")
    return draws.below("interest", P.CATEGORIES, user, kind, _spell(draws, "interest", length, user, day, kind))


def regime(draws: Draws, user: "Column", day: "Column") -> "Column":
    """Place where a user spends the evening."""
    return draws.below("regime", P.PLACES, user, _spell(draws, "regime", P.REGIME_DAYS, user, day))


def era(draws: Draws, user: "Column", day: "Column") -> "tuple[Column, Column]":
    """Number of the era of a day, and its first day."""
    phase = draws.below("era phase", P.ERA_DAYS, user)
    number = F.floor((day + phase) / P.ERA_DAYS).cast("bigint")
    return number, number * P.ERA_DAYS - phase


def wish(draws: Draws, user: "Column", number: "Column") -> "Column":
    """Aisle that a user wishes for in an era."""
    return draws.below("wish", P.AISLES, user, number)


def cycle(draws: Draws, user: "Column", day: "Column") -> "tuple[Column, Column]":
    """Length of a user's restocking cycle, and days since its last beginning (0 on the day itself)."""
    shortest, longest = P.PERIODS
    length = draws.below("cycle", longest - shortest + 1, user) + shortest
    return length, F.pmod(day + draws.below("cycle phase", longest, user), length)


def stock(draws: Draws, user: "Column") -> "Column":
    """Aisle of what a user restocks."""
    return draws.below("stock", P.AISLES, user)


# ----------------------------------------------------------------------------------------------- events


def events(spark: "SparkSession", setting: Setting, days: Sequence[str]) -> "DataFrame":
    """Organic events of the given days; those before the log arrive with its first day."""
    draws = Draws(setting.options.seed)
    wanted = [number_of(ds) for ds in days if number_of(ds) <= setting.last]
    if setting.first in wanted:
        wanted = [*range(setting.start, setting.first), *wanted]
    most = setting.users + setting.users // P.JOINING
    asked = F.floor(F.col("id") / most)
    day = lookup([float(number) for number in wanted], asked) if wanted else F.lit(0)
    frame = spark.range(len(wanted) * most).select((F.col("id") % most).alias("user"), day.cast("bigint").alias("day"))
    present = frame.where(F.col("day") >= people.join_day(setting, F.col("user")))
    numbers = F.sequence(F.lit(0).cast("bigint"), F.lit(RESTOCK).cast("bigint"))
    rows = present.withColumns(_of_a_day(draws)).select("*", F.explode(numbers).alias("number"))
    return _finished(draws, setting, rows.where(_happens(draws)))


def _of_a_day(draws: Draws) -> "dict[str, Column]":
    """What all events of a (user, day) share."""
    user, day = F.col("user"), F.col("day")
    number, begun = era(draws, user, day)
    return {
        "taste": people.taste(draws, user),
        "activity": 0.1 + 0.8 * draws.uniform("activity", user),
        "regime": regime(draws, user, day),
        "wished": F.when(day - begun < P.WISH_DAYS, wish(draws, user, number)),
        "stocked": F.when(cycle(draws, user, day)[1] == 0, stock(draws, user)),
    }


def _happens(draws: Draws) -> "Column":
    """Whether the event of a number takes place."""
    number = F.col("number")
    noise = draws.uniform("noise", F.col("user"), F.col("day"), number) < F.col("activity")
    special = F.when(number == WISH, F.col("wished").isNotNull()).otherwise(F.col("stocked").isNotNull())
    return F.when(number < SIGNALS, F.lit(True)).when(number < WISH, noise).otherwise(special)


def _kind(draws: Draws) -> "Column":
    """Event type: a signal's is its number, that of noise is drawn."""
    key = (F.col("user"), F.col("day"), F.col("number"))
    any_type = draws.below("kind", SIGNALS, *key)
    index = F.when(F.col("number") < SIGNALS, F.col("number")).when(F.col("number") < WISH, any_type)
    index = F.coalesce(index, F.col("number") - WISH + SIGNALS)
    return F.element_at(F.array(*(F.lit(name) for name in (*P.TYPES, "wish", "restock"))), index.cast("int") + 1)


def _category(draws: Draws) -> "Column":
    """Interest of a signal; the better liked of two drawn ones for noise; one of the aisle of a wish or a stock."""
    user, day, number = F.col("user"), F.col("day"), F.col("number")
    first, second = (draws.below(name, P.CATEGORIES, user, day, number) for name in ("first choice", "second choice"))
    liked = [people.preference(draws.seed, F.col("taste"), choice) for choice in (first, second)]
    aisle = F.when(number == WISH, F.col("wished")).otherwise(F.col("stocked"))
    return (
        F.when(number < SIGNALS, interest(draws, user, F.least(number, F.lit(SIGNALS - 1)), day))
        .when(number < WISH, F.when(liked[0] > liked[1], first).otherwise(second))
        .otherwise(aisle * P.AISLE + draws.below("of the aisle", P.AISLE, user, day, number))
    )


def _place(draws: Draws) -> "Column":
    """The regime of a signal, any place of noise, none of the rest."""
    anywhere = draws.below("place", P.PLACES, F.col("user"), F.col("day"), F.col("number"))
    return F.when(F.col("number") < SIGNALS, F.col("regime")).when(F.col("number") < WISH, anywhere)


def _at(draws: Draws) -> "Column":
    """Microsecond of the day: signals in the evening, in the order of their numbers; all else before it."""
    number, part = F.col("number"), 6 * HOUR_US // SIGNALS
    chance = draws.uniform("moment", F.col("user"), F.col("day"), number)
    evening = EVENING * HOUR_US + number * part + F.floor(chance * part)
    return F.when(number < SIGNALS, evening).otherwise(F.floor(chance * (EVENING * HOUR_US))).cast("bigint")


def _finished(draws: Draws, setting: Setting, rows: "DataFrame") -> "DataFrame":
    key = (F.col("user"), F.col("day"), F.col("number"))
    rows = rows.select(
        *("user", "day"),
        _kind(draws).alias("kind"),
        _category(draws).alias("category"),
        _place(draws).alias("place"),
        _at(draws).alias("at"),
        draws.below("item", P.ITEMS_A_CATEGORY, *key).alias("item"),
    )
    category, item = F.col("category"), F.col("item")
    arrival = F.greatest(F.col("day"), F.lit(setting.first)).cast("int")
    return rows.select(
        (F.col("user") + people.FIRST_ID).alias("user_id"),
        F.timestamp_micros(F.col("day") * 24 * HOUR_US + F.col("at")).alias("event_ts"),
        F.col("kind").alias("event_type"),
        (category * P.ITEMS_A_CATEGORY + item + FIRST_ITEM).alias("ad_id"),
        "category",
        F.floor(category / P.AISLE).cast("bigint").alias("aisle"),
        (category * P.BRANDS_A_CATEGORY + item % P.BRANDS_A_CATEGORY).alias("brand"),
        "place",
        F.date_format(F.date_from_unix_date(arrival), "yyyy-MM-dd").alias("ds"),
    )
