"""Feast's Redis online store with the two rules of `features.store.newest`: only newer values replace, and age counts.

Feast reads an id's stamp, compares it here and then writes, so two writers at once can put the older value last, and a
restated value with the event time of the one before it is dropped. Here a script on the server compares (event time,
availability) and writes, in one step. Keys and values are Feast's own, so plain Feast reads them.
"""

from collections.abc import Callable
from typing import Any, Literal

from feast import FeatureView
from feast.infra.online_stores.helpers import _mmh3, _redis_key
from feast.infra.online_stores.online_store import OnlineStore
from feast.infra.online_stores.redis import RedisOnlineStore, RedisOnlineStoreConfig, _versioned_fv_name
from feast.infra.supported_async_methods import SupportedAsyncMethods
from feast.protos.feast.types.EntityKey_pb2 import EntityKey
from feast.repo_config import RepoConfig
from google.protobuf.timestamp_pb2 import Timestamp  # type: ignore[import-untyped]

from features.days import EPOCH
from features.store.age import ClockedReads, Stored
from features.store.newest import Row, utc_micros

WRITE_IF_NEWER = """
local held = redis.call('HGET', KEYS[1], ARGV[1])
if held and redis.call('HEXISTS', KEYS[1], ARGV[3]) == 1 and held > ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1
"""
"""ARGV: field and value of the version, field and value of Feast's stamp, then the features. A version without a stamp
is left of a view that Feast deleted."""
SHIFT = 2**62
"""Added to microseconds, so that instants before 1970 compare as text, too."""


class NewestRedisOnlineStoreConfig(RedisOnlineStoreConfig):
    """Settings of the store: `connection_string`, and `folder` of the world's clock."""

    type: Literal["features.store.newest_redis.NewestRedisOnlineStore"] = (
        "features.store.newest_redis.NewestRedisOnlineStore"
    )
    folder: str


class NewestRedisOnlineStore(ClockedReads, RedisOnlineStore):
    """Redis online store in which older values never replace newer ones, and expired ones are not read."""

    # Feast's own goes past `online_read`
    _read_features_per_fv = OnlineStore._read_features_per_fv

    @property
    def async_supported(self) -> SupportedAsyncMethods:
        """None: the asynchronous methods of Feast keep neither rule."""
        return SupportedAsyncMethods(read=False, write=False)

    def online_write_batch(
        self,
        config: RepoConfig,
        table: FeatureView,
        data: list[Row],
        progress: Callable[[int], Any] | None,
    ) -> None:
        """Write rows (entity key, feature values, event time, availability), each in one step."""
        view = _versioned_fv_name(table, config)
        client = self._get_client(config.online_store)
        script = client.register_script(WRITE_IF_NEWER)
        names: dict[str, bytes] = {}
        with client.pipeline(transaction=False) as pipe:
            for entity_key, values, stamp, created in data:
                when = utc_micros(stamp)
                known = when if created is None else utc_micros(created)
                seen = Timestamp()
                seen.FromMicroseconds(when)
                arguments: list[Any] = [f"_newest:{view}", f"{when + SHIFT:020d}{known + SHIFT:020d}"]
                arguments += [f"_ts:{view}", seen.SerializeToString()]
                for feature, value in values.items():
                    if feature not in names:
                        names[feature] = _mmh3(f"{view}:{feature}")
                    arguments += [names[feature], value.SerializeToString()]
                script(keys=[_redis_key_of(config, entity_key)], args=arguments, client=pipe)
            pipe.execute()
        if progress:
            progress(len(data))

    def stored(
        self, config: RepoConfig, table: FeatureView, entity_keys: list[EntityKey], names: list[str] | None = None
    ) -> list[Stored]:
        """Event time and values of each key, in order, however old; (None, None) for a key that is not stored."""
        rows = RedisOnlineStore.online_read(self, config, table, entity_keys, names)
        # Feast stamps a key that other views have stored, and this one not, with the epoch
        return [(None, None) if stamp is None or stamp == EPOCH else (stamp, values) for stamp, values in rows]

    def forget(self, config: RepoConfig, entity_key: EntityKey, *, delete: bool) -> int:
        """Count the values of an id in all views.

        Args:
            config: of the store.
            entity_key: the id.
            delete: delete them.
        """
        client, key = self._get_client(config.online_store), _redis_key_of(config, entity_key)
        count = int(client.hlen(key))
        if delete:
            client.delete(key)
        return count


def _redis_key_of(config: RepoConfig, entity_key: EntityKey) -> bytes:
    version = config.entity_key_serialization_version
    return bytes(_redis_key(config.project, entity_key, entity_key_serialization_version=version))
