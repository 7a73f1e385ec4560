"""The whole year of the shipped real world, derived from its world file and built a month at a time."""

import tempfile
from itertools import groupby
from pathlib import Path

from features.days import day_range
from features.errors import GemlineError
from features.worlds import World

NAME = "complete_journey_year"
FIRST, LAST = "2017-01-01", "2017-12-31"
TABLES = (
    "feature_store",
    "impressions",
    "outcomes",
    "events",
    "users",
    "ads",
    "user_stats",
    "ad_stats",
    "user_history",
    "examples",
    "labels",
)
"""Assets that training needs; those for serving are left out."""


def year_world() -> World:
    """All households from 2017-01-01 to 2017-12-31, otherwise the shipped world; added to `GEMLINE_HOME` once."""
    import yaml

    from features.worlds.load import SHIPPED, add_world, load_world, world_names

    if NAME in world_names():
        return load_world(NAME)
    raw = yaml.safe_load((SHIPPED / "complete_journey.yaml").read_text(encoding="utf-8"))
    raw |= {
        "name": NAME,
        "title": "Complete Journey (year)",
        "first_day": FIRST,
        "last_day": LAST,
        "closed_days": [FIRST, "2017-12-25"],
    }
    raw["source"]["options"] = {"households": None}
    raw.pop("demo", None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{NAME}.yaml"
        path.write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
        return add_world(path)


def build_missing(world: World, have: set[str], last: str) -> None:
    """Build the tables of all days up to `last` that are not in `have`, month by month in order.

    Raises:
        GemlineError: a month failed; carries the first failed step's own sentence.
    """
    import dagster as dg

    from orchestration.definitions import build
    from orchestration.publishing import asset_key
    from orchestration.running import execute, first_failure

    missing = [ds for ds in day_range(world.first_day, last) if ds not in have]
    for month, days in groupby(missing, key=lambda ds: ds[:7]):
        asked = list(days)
        with dg.DagsterInstance.ephemeral() as instance:
            selection = [asset_key(world, name) for name in TABLES]
            result = execute(
                build(world.name), "tables_job", instance, first=asked[0], last=asked[-1], selection=selection
            )
        if not result.success:
            raise GemlineError(f"tables of {month} failed: {first_failure(result)}")
