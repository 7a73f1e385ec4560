"""Reading the online store: what a request may know of its user and of its candidates.

Feast returns whatever is stored. Here the rules of the training join are applied: a value stamped or available
at `now` or later is not there yet, one older than its view's ttl is stale; both read as missing, and are
counted.

Free of Spark, so that a server can import it. Feast's registry names Spark sources, so it is not opened: the
views are built again from the same specs, and `require_applied` says whether the registry holds just these.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from features.errors import GemlineError
from features.store.definitions import JUST_BEFORE, ViewSpec, feature_fields, view_specs
from features.store.repo import online_repo, require_applied

if TYPE_CHECKING:
    import pandas as pd
    from feast import FeatureView
    from feast.infra.online_stores.online_store import OnlineStore as FeastStore

    from features.home import Home
    from features.worlds.schema import World

HOLE = -(2**63)
"""A null inside a history's list: Feast's lists of integers cannot hold one. A multi-valued attribute holds none."""

NEVER = datetime(1970, 1, 1, tzinfo=UTC)
"""Stamp that Redis gives for what is not stored."""


@dataclass(frozen=True)
class OnlineFeatures:
    """Features of one request.

    Attributes:
        users: one row an asked user id, in order; index `user_id`.
        ads: one row an asked ad id, in order; index `ad_id`. Integers are nullable Int64, lists are Python
            lists.
        missing: view -> reason (`absent`, `stale`, `early`) -> number of ids.
    """

    users: "pd.DataFrame"
    ads: "pd.DataFrame"
    missing: dict[str, dict[str, int]] = field(default_factory=dict)


class OnlineStore:
    """A world's online store, open for any number of requests from any thread; each thread has its own connection."""

    def __init__(self, world: "World", home: "Home") -> None:
        require_applied(world, home)
        self._world, self._home = world, home
        self._config = online_repo(world, home)
        self._views = [(spec, _view(spec)) for spec in view_specs(world).values()]
        self._threads = threading.local()

    def features(self, user_ids: Sequence[int], ad_ids: Sequence[int], now: datetime) -> OnlineFeatures:
        """Features of users and ads as a request at `now` may see them.

        Args:
            user_ids: users, usually one.
            ad_ids: candidates.
            now: the request's instant, aware.

        Raises:
            StoreStale: the store was not applied, or from other declarations.
            GemlineError: `now` has no time zone.
        """
        if now.tzinfo is None:
            raise GemlineError("online features: `now` needs a time zone (for example datetime.now(UTC))")
        require_applied(self._world, self._home)
        missing: dict[str, dict[str, int]] = {}
        users = self._frame("user_id", user_ids, now, missing)
        ads = self._frame("ad_id", ad_ids, now, missing)
        return OnlineFeatures(users, ads, missing)

    def _frame(self, key: str, ids: Sequence[int], now: datetime, missing: dict[str, dict[str, int]]) -> "pd.DataFrame":
        import pandas as pd

        columns: dict[str, Any] = {}
        for spec, view in self._views:
            if spec.key == key:
                rows, missing[spec.name] = _usable(spec, self._read(spec, view, ids), now)
                for name, kind in spec.types.items():
                    read = _histories if spec.is_history else READERS[kind]
                    columns[name] = read([row and row.get(name) for row in rows])
        return pd.DataFrame(columns, index=pd.Index(list(ids), name=key, dtype="int64"))

    def _read(
        self, spec: ViewSpec, view: "FeatureView", ids: Sequence[int]
    ) -> list[tuple[datetime | None, dict[str, Any] | None]]:
        """Stored stamp and values of each id, as Feast keeps them."""
        from feast.protos.feast.types.EntityKey_pb2 import EntityKey
        from feast.protos.feast.types.Value_pb2 import Value

        if not ids:
            return []
        keys = [EntityKey(join_keys=[spec.key], entity_values=[Value(int64_val=int(item))]) for item in ids]
        found: list[tuple[datetime | None, dict[str, Any] | None]]
        found = self._store().online_read(self._config, view, keys, list(spec.names))
        return found

    def _store(self) -> "FeastStore":
        from feast.infra.online_stores.helpers import get_online_store_from_config

        if not hasattr(self._threads, "store"):
            self._threads.store = get_online_store_from_config(self._config.online_store)
        return self._threads.store


def online_features(
    world: "World", home: "Home", user_ids: Sequence[int], ad_ids: Sequence[int], now: datetime
) -> OnlineFeatures:
    """`OnlineStore.features`, once."""
    return OnlineStore(world, home).features(user_ids, ad_ids, now)


def _usable(
    spec: ViewSpec, stored: Sequence[tuple[datetime | None, dict[str, Any] | None]], now: datetime
) -> tuple[list[dict[str, Any] | None], dict[str, int]]:
    """Values of each id, None where they must not be used, and how often for which reason."""
    faults = [_fault(spec, None if stamp == NEVER else stamp, now) for stamp, _ in stored]
    rows = [None if fault else values for fault, (_, values) in zip(faults, stored, strict=True)]
    return rows, dict(Counter(fault for fault in faults if fault))


def _fault(spec: ViewSpec, stamp: datetime | None, now: datetime) -> str:
    """Why a stored row must not be used, by the very comparisons of the training join."""
    asked = now + JUST_BEFORE
    if stamp is None:
        return "absent"
    if stamp + spec.lag > asked:
        return "early"
    if spec.ttl and stamp < asked - spec.ttl:
        return "stale"
    return ""


def _doubles(values: Sequence[Any]) -> Any:
    import numpy as np

    return np.array([value.double_val if _holds(value, "double_val") else np.nan for value in values], dtype=np.float64)


def _integers(values: Sequence[Any]) -> Any:
    import numpy as np
    import pandas as pd

    missing = np.array([not _holds(value, "int64_val") for value in values], dtype=bool)
    exact = [0 if gone else value.int64_val for value, gone in zip(values, missing, strict=True)]
    return pd.arrays.IntegerArray(np.array(exact, dtype=np.int64), missing)


def _histories(values: Sequence[Any]) -> Any:
    return _objects([items and [None if item == HOLE else item for item in items] for items in _bags(values)])


def _bags(values: Sequence[Any]) -> Any:
    return _objects([list(value.int64_list_val.val) if _holds(value, "int64_list_val") else None for value in values])


def _vectors(values: Sequence[Any]) -> Any:
    return _objects([list(value.float_list_val.val) if _holds(value, "float_list_val") else None for value in values])


def _objects(lists: list[Any]) -> Any:
    import pandas as pd

    return pd.Series(lists, dtype="object").to_numpy()


def _holds(value: Any, kind: str) -> bool:
    """Whether one of Feast's messages is there and holds a value; they hold none for a null."""
    return value is not None and value.HasField(kind)


READERS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "double": _doubles,
    "bigint": _integers,
    "array<bigint>": _bags,
    "array<float>": _vectors,
}


def _view(spec: ViewSpec) -> "FeatureView":
    """A view that the online store finds by project and name; its source is never read."""
    from feast import Entity, FeatureView, FileSource, ValueType

    return FeatureView(
        name=spec.name,
        entities=[Entity(name=spec.key.removesuffix("_id"), join_keys=[spec.key], value_type=ValueType.INT64)],
        ttl=spec.ttl,
        schema=feature_fields(spec),
        source=FileSource(name=f"{spec.name}_unread", path="unread", timestamp_field="event_timestamp"),
    )
