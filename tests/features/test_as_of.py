"""The newest known row of each request, against a loop over all rows."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.sql import functions as F

from features.as_of import DAY_US, with_newest
from features.days import micros_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.assets
HOUR_US = 3_600_000_000
TTL = timedelta(hours=26, minutes=30)
START_US = 19_800 * DAY_US
Row = tuple[int, int, int, float]
"""user, stamp, first instant of its availability, value."""
Request = tuple[int | None, int]


def log(seed: int) -> tuple[list[Row], list[Request]]:
    """Rows on full hours, some known late or corrected; requests around stamps, availability, expiry and midnights."""
    rng = np.random.default_rng(seed)
    stamps = START_US + rng.integers(0, 120, 120) * HOUR_US
    known = stamps + rng.choice([0, HOUR_US // 2, 30 * HOUR_US], 120)
    keys = {
        (int(user), int(at), int(when)) for user, at, when in zip(rng.integers(0, 4, 120), stamps, known, strict=True)
    }
    rows = [(*key, float(number)) for number, key in enumerate(sorted(keys))]
    edges = [at for _, stamp, when, _ in rows for at in (stamp, when, stamp + micros_of(TTL))]
    edges += [START_US + day * DAY_US for day in range(7)]
    near = rng.choice(edges, 500) + rng.integers(-1, 3, 500)
    users = [None if user == 5 else int(user) for user in rng.integers(0, 6, 500)]
    requests = list(zip(users, near.tolist(), strict=True))
    return rows, requests + requests[:20]


def by_loop(rows: list[Row], request: Request) -> float | None:
    user, at = request
    known = [row for row in rows if row[0] == user and max(row[1], row[2]) < at and row[1] >= at - 1 - micros_of(TTL)]
    return max(known, key=lambda row: row[1:3])[3] if known else None


def joined(spark: "SparkSession", rows: list[Row], requests: list[Request]) -> dict[int, Any]:
    stored = spark.createDataFrame(rows, "user_id BIGINT, stamp BIGINT, known BIGINT, value DOUBLE")
    stored = stored.withColumns(
        {"event_timestamp": F.timestamp_micros("stamp"), "available_ts": F.timestamp_micros("known")}
    )
    asked = [(number, *request) for number, request in enumerate(requests)]
    frame = spark.createDataFrame(asked, "number BIGINT, user_id BIGINT, at BIGINT")
    frame = frame.withColumn("request_ts", F.timestamp_micros("at"))
    got = with_newest(frame, stored, "user_id", ["value"], TTL)
    assert got.columns[-1] == "value" and set(frame.columns) < set(got.columns) and len(got.columns) == 5
    found = got.select("number", "value").collect()
    assert sorted(row["number"] for row in found) == list(range(len(requests)))
    return {row["number"]: row["value"] for row in found}


@pytest.mark.parametrize("seed", [0, 1])
def test_each_request_meets_the_newest_row_that_was_known(spark: "SparkSession", seed: int) -> None:
    """B08, B09, B11: nothing stamped or known at the request or after it, nothing expired, no request lost."""
    rows, requests = log(seed)
    expected = [by_loop(rows, request) for request in requests]
    found = joined(spark, rows, requests)
    assert [found[number] for number in range(len(requests))] == expected
    # the log holds what could go wrong
    careless = [max((row for row in rows if row[0] == user and row[1] <= at), default=None) for user, at in requests]
    assert None in expected and any(
        row is not None and value != row[3] for value, row in zip(expected, careless, strict=True)
    )


def test_of_copies_of_one_stamp_the_one_known_last_counts(spark: "SparkSession") -> None:
    """B11: three copies written in another order than they became known; before the last one, the second."""
    rows = [(1, START_US, START_US + minute * 60_000_000, value) for minute, value in ((1, 1.0), (3, 3.0), (2, 2.0))]
    minutes = (1, 2, 3)
    requests: list[Request] = [(1, START_US + minute * 60_000_000 + 1) for minute in minutes]
    requests.append((1, START_US + 3 * 60_000_000))
    assert joined(spark, rows, requests) == {0: 1.0, 1: 2.0, 2: 3.0, 3: 2.0}
