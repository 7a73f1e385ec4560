"""Scoring requests in this process, as the service would: for `gemline score` and the demonstration."""

from typing import TYPE_CHECKING, Any

from features.errors import GemlineError

if TYPE_CHECKING:
    from features.home import Home
    from features.tables import Tables
    from features.worlds import World

UNKNOWN = 7_000_000_000_000_000_001
"""An id that no log here has."""


def scored(world: "World", home: "Home", request: dict[str, Any]) -> dict[str, Any]:
    """The answer to one request, plain values.

    Raises:
        GemlineError: the request does not fit, or nothing is live.
    """
    from serving.server.requests import validated
    from serving.server.scorer import Scorer

    return dict(Scorer(world, home).score(validated(request)).model_dump(mode="json"))


def example_request(tables: "Tables", vertical: str) -> dict[str, Any]:
    """A request in the manner of the newest day's log: a known user with known ads, an unknown ad, an unknown user.

    Raises:
        GemlineError: the newest day shows nothing on the vertical's surfaces.
    """
    from pyspark.sql import functions as F

    world = tables.world
    surfaces = list(world.vertical(vertical).surfaces)
    newest = max(tables.readable_days("impressions"))
    rows = tables.read("impressions", [newest]).where(F.col("surface").isin(surfaces) & F.col("user_id").isNotNull())
    shown = rows.orderBy("request_ts", "impression_id").limit(50).toArrow().to_pylist()
    if not shown:
        raise GemlineError(f"{newest} shows nothing on {', '.join(surfaces)}; write a request of another day")
    first = shown[0]
    ads = [row["ad_id"] for row in shown if row["request_id"] == first["request_id"]][:2]
    # the log keeps hashes of texts, a request says the text itself
    context = {name: first[f"context_{name}"] for name in world.context if name not in world.context_text}
    return {
        "vertical": vertical,
        "surface": first["surface"],
        "user_id": first["user_id"],
        "context": {name: value for name, value in context.items() if value is not None},
        "ads": [*({"ad_id": ad} for ad in ads), {"ad_id": UNKNOWN}, {"ad_id": ads[0], "user_id": UNKNOWN}],
    }
