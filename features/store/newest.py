"""Feast's SQLite online store with one rule added: a value is replaced only by one that is at least as new.

Feast lets the last writer win, so a backfill of an older day would overwrite a newer value. Here the upsert
itself compares (event time, availability), whoever writes: a daily job, a backfill in any order, a push.
Equal stamps replace, so a restated day takes effect. All rows of a batch go through one statement.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

from feast import FeatureView
from feast.infra.key_encoding_utils import serialize_entity_key
from feast.infra.online_stores.sqlite import SqliteOnlineStore, SqliteOnlineStoreConfig, _quote_id, _table_id
from feast.protos.feast.types.EntityKey_pb2 import EntityKey
from feast.protos.feast.types.Value_pb2 import Value
from feast.repo_config import RepoConfig
from feast.utils import to_naive_utc

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
        name = _quote_id(_table_id(config.project, table, config.registry.enable_online_feature_view_versioning))
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
            when, known = to_naive_utc(stamp), None if created is None else to_naive_utc(created)
            rows.extend((key, feature, value.SerializeToString(), when, known) for feature, value in values.items())
        connection = self._get_conn(config)
        with connection:
            connection.executemany(statement, rows)
        if progress:
            progress(len(data))
