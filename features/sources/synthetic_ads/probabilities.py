r"""The true probability of every task: the equations of the world.

With sigma the logistic function, z(.) a standard normal hashed from its keys, s(.) a hashed sign, 1{.} an indicator
and y = t - 1 the day before the request:

    p(view)             = sigma(view score) * F_view(window)
    p(click)            = sigma(view score) * sigma(click score) * F_click(window)   (no click without a view)
    p(cart | click)     = sigma(cart score) * F_cart(window)
    p(purchase | cart)  = sigma(purchase score) * F_purchase(window)
    p(offsite | click)  = sigma(off-site score) * reported(measurement) * F_offsite(window)
    p(install | click)  = sigma(install score) * F_install(window)

F are the distributions of the delays (`outcomes`): what comes after the window makes no label. The click score is an
intercept by surface, plain effects of user, ad and device, and one term for each plant (`click_terms`). Everything
about a user's past is as of the end of the day before, and in the events of that day and of days before.
"""

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.sources.synthetic_ads import ads, behaviour, people
from features.sources.synthetic_ads import parameters as P
from features.sources.synthetic_ads.delays import within_window
from features.sources.synthetic_ads.draws import Draws, lookup, sealed
from features.sources.synthetic_ads.parameters import Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

TASKS: dict[str, str | None] = {
    "view": None,
    "click": None,
    "cart": "click",
    "purchase": "cart",
    "offsite": "click",
    "install": "click",
}
"""Task -> the task without which it does not exist."""
TURN = 2 * 3.141592653589793
DRIFT_DAYS = 56.0
CLICK = (-3.9, -3.8, -4.0, -3.5, -3.7)
VIEW = (0.3, 0.7, 0.9, 0.0, 0.5)
"""Intercepts by surface."""
CONFLICT = (1.0, -1.0, 1.0, -1.0, 0.0)
"""Sign of the conflicting preference by surface."""


def with_probabilities(setting: Setting, auctions: "DataFrame") -> "DataFrame":
    """Candidates with two columns a task, null on surfaces where the task does not exist.

    `q_<task>` is the probability that the outcome comes at all, given the one before it in the funnel; `p_<task>` the
    true probability of the task's label, given that of its parent in `TASKS`.
    """
    draws = Draws(setting.options.seed)
    described = people.described(draws, F.col("user")) | ads.described(draws, F.col("ad_id"))
    frame = auctions.withColumns({**described, "taste": people.taste(draws, F.col("user"))})
    frame = sealed(frame).withColumn("liking", people.preference(draws.seed, F.col("taste"), F.col("category")))
    frame = sealed(frame)
    terms = {"view": view_terms(draws), "click": click_terms(setting), **later_terms(draws)}
    frame = sealed(frame.withColumns({f"{task}_score": _sum(parts) for task, parts in terms.items()}))
    own = {task: F.lit(1.0) / (F.lit(1.0) + F.exp(-F.col(f"{task}_score"))) for task in TASKS}
    own["offsite"] = own["offsite"] * lookup(P.REPORTED, F.col("measurement"))
    exists = {task.name: _exists(task.surfaces) for task in setting.world.tasks}
    frame = frame.withColumns({f"q_{task}": F.when(exists[task], own[task]) for task in TASKS})
    inside = within_window(setting.world)
    truth = {f"p_{task}": F.col(f"q_{task}") * F.lit(inside[task]) for task in TASKS}
    truth["p_click"] = truth["p_click"] * F.col("q_view")
    return sealed(frame.withColumns(truth))


def _exists(surfaces: tuple[str, ...]) -> "Column":
    indices = [P.SURFACES.index(name) for name in surfaces or P.SURFACES]
    return F.col("surface_index").isin(indices)


def _sum(terms: "Mapping[str, Column]") -> "Column":
    return reduce(lambda left, right: left + right, terms.values())


def view_terms(draws: Draws) -> "dict[str, Column]":
    """Terms of the view score: who looks, at what, where and when."""
    hour = F.col("request_us") % 86_400_000_000 / 3_600_000_000
    return {
        "surface": lookup(VIEW, F.col("surface_index")),
        "attention": 0.9 * draws.normal("attention", F.col("user")),
        "format": 0.6 * draws.normal("format", F.col("format_index"), F.col("surface_index")),
        "device": lookup((0.4, 0.0, -0.6), F.col("device")),
        "hour": 0.4 * F.cos(TURN * (hour - 20) / 24),
        "liking": 0.4 * F.col("liking"),
    }


def click_terms(setting: Setting) -> "dict[str, Column]":
    """Terms of the click score by name; those of plants that are switched off are absent."""
    draws, plants = Draws(setting.options.seed), setting.options.plants
    terms = {
        "surface": lookup(CLICK, F.col("surface_index")),
        "user": 0.3 * draws.normal("propensity", F.col("user")),
        "ad": 0.25 * draws.normal("appeal", F.col("ad_id")),
        "device": lookup((0.2, 0.0, -0.3), F.col("device")),
    }
    planted = {
        "surfaces": _surfaces,
        "crosses": _crosses,
        "long": _long,
        "periodic": _periodic,
        "two_way": _two_way,
        "hidden": _hidden,
        "drift": _drift,
        "content": _content,
    }
    return terms | {name: term(setting, draws) for name, term in planted.items() if getattr(plants, name)}


def _surfaces(_setting: Setting, draws: Draws) -> "Column":
    """0.4 liking(user, category) + 0.4 sign(surface) z(country, aisle)."""
    culture = draws.normal("culture", F.col("country"), F.col("aisle"))
    return 0.4 * F.col("liking") + 0.4 * lookup(CONFLICT, F.col("surface_index")) * culture


def _crosses(_setting: Setting, _draws: Draws) -> "Column":
    """0.4 times the product of the signs of age, country, format and objective: (-1) to the power of each."""
    odd = (F.col("age") + F.col("country") + F.col("format_index") + F.col("objective_index")) % 2
    return 0.4 - 0.8 * odd


def _long(setting: Setting, draws: Draws) -> "Column":
    """1.1 (1{ad's aisle is the wish of two eras ago} - 1/4), where that era began with the user there."""
    user, day = F.col("user"), F.col("day")
    number, begun = behaviour.era(draws, user, day)
    seen = begun - P.WISH_LAG * P.ERA_DAYS >= people.join_day(setting, user)
    return _match(behaviour.wish(draws, user, number - P.WISH_LAG), 1.1, seen)


def _periodic(setting: Setting, draws: Draws) -> "Column":
    """1.5 cos(2 pi age / cycle) (1{ad's aisle is the user's stock} - 1/4), age in days since restocking was due.

    Where two restockings were seen until the day before.
    """
    user, day = F.col("user"), F.col("day")
    length, age = behaviour.cycle(draws, user, day)
    _, before = behaviour.cycle(draws, user, day - 1)
    seen = day - 1 - before - length >= people.join_day(setting, user)
    return F.cos(TURN * age / length) * _match(behaviour.stock(draws, user), 1.5, seen)


def _two_way(setting: Setting, draws: Draws) -> "Column":
    """1.1 (1{aisle of the interest of type tau(age)} - 1/4) + 0.4 s(regime, attribute that it chooses, format).

    tau(age) is the age's own event type; regime 0 looks at the age, 1 at the income, 2 at the country.
    """
    user, day = F.col("user"), F.col("day")
    seen = day - 1 >= people.join_day(setting, user)
    looked = behaviour.interest(draws, user, F.col("age"), day - 1)
    state = behaviour.regime(draws, user, day - 1)
    attribute = F.when(state == 0, F.col("age")).when(state == 1, F.col("income")).otherwise(F.col("country"))
    sign = draws.sign("fits", state, attribute, F.col("format_index"))
    aisle = F.floor(looked / P.AISLE).cast("bigint")
    return _match(aisle, 1.1, seen) + F.when(seen, 0.4 * sign).otherwise(0.0)


def _hidden(_setting: Setting, draws: Draws) -> "Column":
    """0.4 s(page, aisle)."""
    return 0.4 * draws.sign("page", F.col("page"), F.col("aisle"))


def _drift(setting: Setting, _draws: Draws) -> "Column":
    """0.35 sin(2 pi (day / 56 + category / 12))."""
    turn = (F.col("day") - setting.first) / DRIFT_DAYS + F.col("category") / P.CATEGORIES
    return 0.35 * F.sin(TURN * turn)


def _content(_setting: Setting, draws: Draws) -> "Column":
    """0.35 quality(content embedding) + 0.25 times the mean of z(topic)."""
    values = F.transform("topics", lambda topic: draws.normal("topic value", topic))
    mean = F.aggregate(values, F.lit(0.0), lambda total, value: total + value) / F.size("topics")
    return 0.35 * ads.quality(draws, F.col("ad_id")) + 0.25 * mean


def _match(aisle: "Column", size: float, seen: "Column") -> "Column":
    hit = (F.col("aisle") == aisle).cast("double") - 1.0 / P.AISLES
    return F.when(seen, size * hit).otherwise(0.0)


def later_terms(draws: Draws) -> "dict[str, dict[str, Column]]":
    """Terms of the scores of cart, purchase, offsite and install."""
    user, price = F.col("user"), (F.col("price") - 2.0)
    return {
        "cart": {
            "objective": lookup((-1.3, -0.6, 0.3, -0.8), F.col("objective_index")),
            "user": 0.8 * draws.normal("buyer", user),
            "price": -0.35 * price,
            "liking": 0.5 * F.col("liking"),
            "means": 0.6 * draws.normal("means", F.col("income"), F.col("price")),
        },
        "purchase": {
            "intercept": F.lit(-0.3),
            "user": 1.0 * draws.normal("payer", user),
            "price": -0.3 * price,
            "aisle": 0.7 * draws.normal("shop", F.col("income"), F.col("aisle")),
            "device": lookup((-0.3, 0.0, 0.5), F.col("device")),
        },
        "offsite": {
            "objective": lookup((-0.9, -0.2, 0.5, -0.7), F.col("objective_index")),
            "brand": 0.8 * draws.normal("brand", F.col("brand")),
            "user": 0.9 * draws.normal("elsewhere", user),
            "liking": 0.4 * F.col("liking"),
        },
        "install": {
            "objective": lookup((-1.5, -1.2, -1.3, 0.8), F.col("objective_index")),
            "user": 0.8 * draws.normal("installer", user),
            "device": lookup((0.4, 0.1, -0.8), F.col("device")),
            "quality": 0.4 * ads.quality(draws, F.col("ad_id")),
        },
    }
