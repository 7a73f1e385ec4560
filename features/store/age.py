"""When a stored value may be used: by the very comparisons of the training join, whoever reads.

Feast's join is asked for `now` minus a microsecond, so a value counts when it was available strictly before `now` and
when its age is at most ttl + 1 microsecond. Feast's own online reads judge no age at all.
"""

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from features.clock import now
from features.home import Home
from features.worlds.load import load_world

if TYPE_CHECKING:
    from feast import FeatureView
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey
    from feast.repo_config import RepoConfig

JUST_BEFORE = timedelta(microseconds=-1)
"""Added to the asked instant: a value counts when it is known strictly before it."""
NO_TIME = timedelta(0)
LAG = "lag_us"
"""Tag of a view: microseconds after its stamp at which a value is available."""

Stored = tuple[datetime | None, dict[str, Any] | None]
"""Event time and Feast values of one id and view; (None, None) when nothing is stored."""


def fault(stamp: datetime | None, at: datetime, ttl: timedelta, lag: timedelta) -> str:
    """Why a stored row must not be used at an instant: `absent`, `early`, `stale`, or empty when it may.

    Args:
        stamp: its event time.
        at: the asked instant, aware.
        ttl: life of a row; zero means that it holds until a newer one.
        lag: available this long after its stamp.
    """
    asked = at + JUST_BEFORE
    if stamp is None:
        return "absent"
    if stamp + lag > asked:
        return "early"
    return "stale" if ttl and stamp < asked - ttl else ""


class ClockedReads:
    """Part of an online store: plain Feast reads see what a request at the world's present may know.

    A store gives `stored`, which judges nothing; `features.store.lookup` uses that with the request's own instant. What
    Feast itself reads through, `get_online_features` and `feast serve` among it, ends in `online_read`.
    """

    def stored(
        self, config: "RepoConfig", table: "FeatureView", entity_keys: "list[EntityKey]", names: list[str] | None = None
    ) -> list[Stored]:
        """What is stored of each key, in order, however old."""
        raise NotImplementedError

    def online_read(
        self,
        config: "RepoConfig",
        table: "FeatureView",
        entity_keys: "list[EntityKey]",
        requested_features: list[str] | None = None,
    ) -> list[Stored]:
        """Event time and values of each key, in order; (None, None) where nothing may be used.

        Raises:
            GemlineError: a replay world of which no day is in the online store yet.
        """
        found = self.stored(config, table, entity_keys, requested_features)
        if all(stamp is None for stamp, _ in found):
            return found
        at = now(load_world(config.project), Home(Path(config.online_store.folder).parent))
        ttl, lag = table.ttl or NO_TIME, timedelta(microseconds=int(table.tags.get(LAG, 0)))
        return [row if not fault(row[0], at, ttl, lag) else (None, None) for row in found]
