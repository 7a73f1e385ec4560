"""Feast's SQLite online store with two rules added: a value is replaced only by one at least as new, and age counts.

Feast lets the last writer win, so a backfill of an older day would overwrite a newer value. Here the upsert
itself compares (event time, availability), whoever writes: a daily job, a backfill in any order, a push.
Equal stamps replace, so a restated day takes effect. All rows of a batch go through one statement.

Stamps are microseconds since 1970 in UTC. Feast keeps whole seconds, in which two pushes of one second have no order,
converts them through the machine's zone, which moves the instants of one hour a year, and does so in one Python call a
stored value, which is most of the time of a read.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from feast import FeatureView
from feast.infra.key_encoding_utils import serialize_entity_key
from feast.infra.online_stores.sqlite import SqliteOnlineStore, SqliteOnlineStoreConfig, _quote_id, _table_id
from feast.protos.feast.types.EntityKey_pb2 import EntityKey
from feast.protos.feast.types.Value_pb2 import Value
from feast.repo_config import RepoConfig

from features.days import EPOCH, micros
from features.store.age import ClockedReads, Stored

if TYPE_CHECKING:
    import sqlite3

Row = tuple[EntityKey, dict[str, Value], datetime, datetime | None]


class NewestSqliteOnlineStoreConfig(SqliteOnlineStoreConfig):
    """Settings of the store: `path` of the SQLite file, `folder` of the world's clock."""

    type: Literal["features.store.newest.NewestSqliteOnlineStore"] = "features.store.newest.NewestSqliteOnlineStore"
    folder: str


class NewestSqliteOnlineStore(ClockedReads, SqliteOnlineStore):
    """SQLite online store in which older values never replace newer ones, and expired ones are not read."""

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
        rows: list[tuple[Any, ...]] = []
        for entity_key, values, stamp, created in data:
            key = _key(config, entity_key)
            when, known = utc_micros(stamp), None if created is None else utc_micros(created)
            rows.extend((key, feature, value.SerializeToString(), when, known) for feature, value in values.items())
        connection = self._get_conn(config)
        with connection:
            connection.executemany(statement, rows)
        if progress:
            progress(len(data))

    def stored(
        self, config: RepoConfig, table: FeatureView, entity_keys: list[EntityKey], names: list[str] | None = None
    ) -> list[Stored]:
        """Event time and values of each key, in order, however old; (None, None) for a key that is not stored."""
        keys = [_key(config, key) for key in entity_keys]
        # a cast column has no declared type, so that sqlite3 does not convert it
        statement = (
            f"SELECT entity_key, feature_name, value, CAST(event_ts AS INTEGER) FROM {_name(config, table)} "
            f"WHERE entity_key IN ({','.join('?' * len(keys))})"
        )
        stamps: dict[bytes, int] = {}
        values: dict[bytes, dict[str, Value]] = {}
        wanted = None if names is None else set(names)
        for key, feature, value, stamp in self._get_conn(config).execute(statement, keys):
            if wanted is None or feature in wanted:
                stamps[key] = stamp
                values.setdefault(key, {})[feature] = Value.FromString(value)
        return [
            (EPOCH + timedelta(microseconds=stamps[key]), values[key]) if key in stamps else (None, None)
            for key in keys
        ]

    def forget(self, config: RepoConfig, entity_key: EntityKey, *, delete: bool) -> int:
        """Count the values of an id in every table of the file, also of views that are declared no more.

        Args:
            config: of the store.
            entity_key: the id.
            delete: overwrite them with zeros and delete them.
        """
        connection: sqlite3.Connection = self._get_conn(config)
        connection.execute("PRAGMA secure_delete = ON")
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        tables = [name for (name,) in found if name.startswith(f"{config.project}_")]
        statement = "DELETE FROM {}" if delete else "SELECT 1 FROM {}"
        count = 0
        with connection:
            for name in tables:
                where = f"{statement.format(_quote_id(name))} WHERE entity_key = ?"
                cursor = connection.execute(where, (_key(config, entity_key),))
                count += cursor.rowcount if delete else len(cursor.fetchall())
        return count


def _key(config: RepoConfig, entity_key: EntityKey) -> bytes:
    version = config.entity_key_serialization_version
    return bytes(serialize_entity_key(entity_key, entity_key_serialization_version=version))


def _name(config: RepoConfig, table: FeatureView) -> str:
    return str(_quote_id(_table_id(config.project, table, config.registry.enable_online_feature_view_versioning)))


def utc_micros(stamp: datetime) -> int:
    """Microseconds since 1970; without a zone, an instant is in UTC, as everywhere in Feast."""
    return micros(stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC))
