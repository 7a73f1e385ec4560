"""Reading the online store: what a request may know of its user and of its candidates.

The rules of the training join are applied (`features.store.age`): a value stamped or available at `now` or later is not
there yet, one older than its view's ttl is stale; both read as missing, and are counted.

Free of Spark, so that a server can import it. Feast's registry names Spark sources, so it is not opened: the
views are built again from the same specs, and `require_applied` says whether the registry holds just these.
"""

import operator
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from features.errors import GemlineError
from features.store.age import Stored, fault
from features.store.definitions import ViewSpec, feature_fields, view_specs
from features.store.repo import online_repo, require_applied

if TYPE_CHECKING:
    import pandas as pd
    from feast import FeatureView
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey

    from features.home import Home
    from features.store.age import ClockedReads
    from features.worlds.schema import World

HOLE = -(2**63)
"""A null inside a history's list: Feast's lists of integers cannot hold one. A multi-valued attribute holds none."""


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
            GemlineError: `now` has no time zone, or an id is no 64-bit integer.
        """
        if now.tzinfo is None:
            raise GemlineError("online features: `now` needs a time zone (for example datetime.now(UTC))")
        user_ids, ad_ids = exact_ids("user_ids", user_ids), exact_ids("ad_ids", ad_ids)
        require_applied(self._world, self._home)
        missing: dict[str, dict[str, int]] = {}
        users = self._frame("user_id", user_ids, now, missing)
        ads = self._frame("ad_id", ad_ids, now, missing)
        return OnlineFeatures(users, ads, missing)

    def _frame(self, key: str, ids: Sequence[int], now: datetime, missing: dict[str, dict[str, int]]) -> "pd.DataFrame":
        import pandas as pd

        columns: dict[str, Any] = {}
        keys = [entity_key(key, item) for item in ids]
        for spec, view in self._views:
            if spec.key == key:
                rows, missing[spec.name] = _usable(spec, self._read(spec, view, keys), now)
                for name, kind in spec.types.items():
                    read = _histories if spec.is_history else READERS[kind]
                    columns[name] = read([row and row.get(name) for row in rows])
        return pd.DataFrame(columns, index=pd.Index(list(ids), name=key, dtype="int64"))

    def _read(self, spec: ViewSpec, view: "FeatureView", keys: "list[EntityKey]") -> list[Stored]:
        """Stored stamp and values of each key, as Feast keeps them."""
        return self._store().stored(self._config, view, keys, list(spec.names)) if keys else []

    def _store(self) -> "ClockedReads":
        from feast.infra.online_stores.helpers import get_online_store_from_config

        if not hasattr(self._threads, "store"):
            self._threads.store = get_online_store_from_config(self._config.online_store)
        return self._threads.store


def online_features(
    world: "World", home: "Home", user_ids: Sequence[int], ad_ids: Sequence[int], now: datetime
) -> OnlineFeatures:
    """`OnlineStore.features`, once."""
    return OnlineStore(world, home).features(user_ids, ad_ids, now)


def exact_ids(what: str, ids: Sequence[Any]) -> list[int]:
    """Ids as they are, exactly.

    Raises:
        GemlineError: one is no 64-bit integer; a float among them was one, and may have lost its last digits.
    """
    try:
        found = [operator.index(item) for item in ids]
    except TypeError:
        wrong = next(item for item in ids if not hasattr(item, "__index__"))
        raise GemlineError(
            f"{what}: {wrong!r} is no 64-bit integer; pass ids as integers (in pandas as Int64, since one missing id "
            "makes a column of floats, which cannot hold ids above 2^53), and leave out what is missing"
        ) from None
    if outside := [item for item in found if not -(2**63) <= item < 2**63]:
        raise GemlineError(f"{what}: {outside[0]} is no 64-bit integer; text ids go through features.ids.id_of")
    return found


def entity_key(join_key: str, item: int) -> "EntityKey":
    """Feast's key of an id."""
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey
    from feast.protos.feast.types.Value_pb2 import Value

    return EntityKey(join_keys=[join_key], entity_values=[Value(int64_val=item)])


def _usable(
    spec: ViewSpec, stored: Sequence[Stored], now: datetime
) -> tuple[list[dict[str, Any] | None], dict[str, int]]:
    """Values of each id, None where they must not be used, and how often for which reason."""
    faults = [fault(stamp, now, spec.ttl, spec.lag) for stamp, _ in stored]
    rows = [None if why else values for why, (_, values) in zip(faults, stored, strict=True)]
    return rows, dict(Counter(why for why in faults if why))


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
