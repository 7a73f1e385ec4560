"""Feast's SQLite online store with one rule added: a value is replaced only by one that is at least as new.

Feast lets the last writer win, so a backfill of an older day would overwrite a newer value. Here the upsert
itself compares (event time, availability), whoever writes: a daily job, a backfill in any order, a push.
Equal stamps replace, so a restated day takes effect. All rows of a batch go through one statement.

Stamps are seconds since 1970 in UTC. Feast's own conversion goes through the machine's zone, which moves the
instants of one hour a year, and through one Python call a stored value, which is most of the time of a read.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

from feast import FeatureView
from feast.infra.key_encoding_utils import serialize_entity_key
from feast.infra.online_stores.sqlite import SqliteOnlineStore, SqliteOnlineStoreConfig, _quote_id, _table_id
from feast.protos.feast.types.EntityKey_pb2 import EntityKey
from feast.protos.feast.types.Value_pb2 import Value
from feast.repo_config import RepoConfig

Row = tuple[EntityKey, dict[str, Value], datetime, datetime | None]


class NewestSqliteOnlineStoreConfig(SqliteOnlineStoreConfig):
    """Settings of the store: `path` of the SQLite file."""

    type: Literal["features.store.newest.NewestSqliteOnlineStore"] = "features.store.newest.NewestSqliteOnlineStore"


class NewestSqliteOnlineStore(SqliteOnlineStore):
    """SQLite online store in which older values never replace newer ones."""

    def online_write_batch(
        self,
        config: RepoConfig,
        table: FeatureView,
        data: list[Row],
        progress: Callable[[int], Any] | None,
    ) -> None:
        """Write rows (entity key, feature values, event time, availability) in one transaction."""
        name = _name(config, table)
        statement = (
            f"INSERT INTO {name} (entity_key, feature_name, value, event_ts, created_ts) "
            "VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (entity_key, feature_name) DO UPDATE SET "
            "value = excluded.value, event_ts = excluded.event_ts, created_ts = excluded.created_ts "
            "WHERE (excluded.event_ts, coalesce(excluded.created_ts, 0)) "
            ">= (event_ts, coalesce(created_ts, 0))"
        )
        version = config.entity_key_serialization_version
        rows: list[tuple[Any, ...]] = []
        for entity_key, values, stamp, created in data:
            key = serialize_entity_key(entity_key, entity_key_serialization_version=version)
            when, known = _seconds(stamp), None if created is None else _seconds(created)
            rows.extend((key, feature, value.SerializeToString(), when, known) for feature, value in values.items())
        connection = self._get_conn(config)
        with connection:
            connection.executemany(statement, rows)
        if progress:
            progress(len(data))

    def online_read(
        self,
        config: RepoConfig,
        table: FeatureView,
        entity_keys: list[EntityKey],
        requested_features: list[str] | None = None,
    ) -> list[tuple[datetime | None, dict[str, Value] | None]]:
        """Event time and values of each key, in order; (None, None) for a key that is not stored."""
        version = config.entity_key_serialization_version
        keys = [serialize_entity_key(key, entity_key_serialization_version=version) for key in entity_keys]
        # a cast column has no declared type, so that sqlite3 does not convert it
        statement = (
            f"SELECT entity_key, feature_name, value, CAST(event_ts AS INTEGER) FROM {_name(config, table)} "
            f"WHERE entity_key IN ({','.join('?' * len(keys))})"
        )
        stamps: dict[bytes, int] = {}
        values: dict[bytes, dict[str, Value]] = {}
        wanted = None if requested_features is None else set(requested_features)
        for key, feature, value, seconds in self._get_conn(config).execute(statement, keys):
            if wanted is None or feature in wanted:
                stamps[key] = seconds
                values.setdefault(key, {})[feature] = Value.FromString(value)
        return [
            (datetime.fromtimestamp(stamps[key], UTC), values[key]) if key in stamps else (None, None) for key in keys
        ]


def _name(config: RepoConfig, table: FeatureView) -> str:
    return str(_quote_id(_table_id(config.project, table, config.registry.enable_online_feature_view_versioning)))


def _seconds(stamp: datetime) -> int:
    """Seconds since 1970; without a zone, an instant is in UTC, as everywhere in Feast."""
    return int((stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp())
