"""Small frames by hand: rows as dictionaries, instants as ISO text."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

IMPRESSIONS = (
    "impression_id BIGINT, request_id BIGINT, user_id BIGINT, ad_id BIGINT, surface STRING, position INT, "
    "request_ts TIMESTAMP, keep_rate DOUBLE, value DOUBLE, objective STRING, format STRING, "
    "window_end TIMESTAMP, context_device BIGINT, ds STRING"
)
OUTCOMES = (
    "request_id BIGINT, user_id BIGINT, ad_id BIGINT, event_type STRING, event_ts TIMESTAMP, value DOUBLE, ds STRING"
)
EVENTS = (
    "user_id BIGINT, event_ts TIMESTAMP, event_type STRING, ad_id BIGINT, surface STRING, request_id BIGINT, "
    "value DOUBLE, brand BIGINT, ds STRING"
)
USERS = "user_id BIGINT, event_timestamp TIMESTAMP, available_ts TIMESTAMP, country BIGINT, age_band BIGINT, ds STRING"
ADS = (
    "ad_id BIGINT, event_timestamp TIMESTAMP, available_ts TIMESTAMP, brand BIGINT, topic BIGINT, objective BIGINT, "
    "tags ARRAY<BIGINT>, image ARRAY<FLOAT>, ds STRING"
)


def utc(text: str) -> datetime:
    """'2024-03-08 12:00:00' as an aware UTC instant."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def frame(spark: "SparkSession", ddl: str, rows: Sequence[dict[str, Any]]) -> "DataFrame":
    """A frame with the columns of `ddl`; what a row does not name is null, timestamps are UTC text."""
    stamps = [part.split()[0] for part in ddl.split(", ") if part.endswith(" TIMESTAMP")]
    names = [part.split()[0] for part in ddl.split(", ")]
    unknown = {name for row in rows for name in row} - set(names)
    assert not unknown, f"columns {unknown} are not in the table"
    made = spark.createDataFrame(
        [tuple(row.get(name) for name in names) for row in rows], ddl.replace("TIMESTAMP", "STRING")
    )
    return made.withColumns({name: F.col(name).cast("timestamp") for name in stamps}) if stamps else made
