"""What "now" is: the server's clock in a real world, the end of the newest published day in a replay world.

Every expiry and every default instant asks here, so a log of 2017 is as fresh on the day it is replayed as it was then.
"""

import json
from datetime import UTC, datetime, timedelta

from features.days import day_end
from features.errors import GemlineError
from features.home import Home
from features.worlds.schema import World

RECORD = "newest_day.json"
JUST_AFTER = timedelta(microseconds=1)
"""Features count strictly before a request, and a day's statistics are stamped with its end."""


def advance(home: Home, ds: str) -> str:
    """Note that day `ds` is in the online store; an older day leaves the clock where it is.

    Returns:
        The newest day.
    """
    newest = max(ds, _newest(home) or ds)
    path = home.online / RECORD
    staged = path.with_suffix(".tmp")
    staged.write_text(json.dumps({"ds": newest}), encoding="utf-8")
    staged.replace(path)
    return newest


def now(world: World, home: Home) -> datetime:
    """The world's present instant, in UTC: the first at which a request sees all that the newest day brought.

    Raises:
        GemlineError: a replay world of which no day was published yet.
    """
    if world.clock == "real":
        return datetime.now(UTC)
    newest = _newest(home)
    if newest is None:
        raise GemlineError(f"world {world.name}: no day is in the online store yet; materialize online_features first")
    return run_instant(world, newest)


def run_instant(world: World, ds: str) -> datetime:
    """First instant at which a request sees all that day `ds` brought, in UTC: when the run after that day stands."""
    return day_end(ds, world.timezone) + world.largest_lag + JUST_AFTER


def _newest(home: Home) -> str | None:
    path = home.online / RECORD
    return json.loads(path.read_text(encoding="utf-8"))["ds"] if path.exists() else None
