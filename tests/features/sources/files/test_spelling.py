"""Spellings of time: which there are, and what each means."""

from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from features.sources.files.spelling import checked_spelling
from features.sources.files.values import time_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEW_YORK = "America/New_York"


@pytest.mark.parametrize(
    "spelling",
    ["iso", "s", "ns", "weeks", "days since 2017-01-02", "dd/MM/yy", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "yDD M d"],
)
def test_what_can_be_written(spelling: str) -> None:
    if spelling == "yDD M d":
        with pytest.raises(ValueError, match="unknown letters D"):
            checked_spelling(spelling)
    else:
        assert checked_spelling(spelling) == spelling


@pytest.mark.parametrize(
    ("spelling", "sentence"),
    [
        ("dd/mm/yy", r"no M \(months are MM; mm are minutes\)"),
        ("weeks since 2017-13-02", "month must be in 1..12"),
        ("seconds", "unknown letters c, e, n, o"),
        ("HH:mm", "no y and no M and no d"),
    ],
)
def test_what_cannot(spelling: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        checked_spelling(spelling)


@pytest.mark.assets
def test_each_spelling_means_one_instant(spark: "SparkSession") -> None:
    cases = [
        ("1709814600", "s", "UTC", "2024-03-07 12:30:00"),
        ("1709814600.1234567", "s", NEW_YORK, "2024-03-07 12:30:00.123456"),
        ("1709814600123", "ms", "UTC", "2024-03-07 12:30:00.123"),
        ("-1", "ns", "UTC", "1969-12-31 23:59:59.999999"),
        # milliseconds read as seconds, and numbers that no calendar has
        ("1709814600123", "s", "UTC", None),
        ("99999999999999999999999999", "weeks", "UTC", None),
        ("now", "s", "UTC", None),
        # weeks and days follow the wall clock: the 23-hour day of 2024-03-10 is one day
        ("1", "weeks since 2024-03-04", NEW_YORK, "2024-03-11 04:00:00"),
        ("0", "weeks since 2024-03-04", NEW_YORK, "2024-03-04 05:00:00"),
        ("1.5", "days since 2024-03-04", "UTC", "2024-03-05 12:00:00"),
        ("3600", "s since 2024-03-04", NEW_YORK, "2024-03-04 06:00:00"),
        ("2024-W10", "iso", NEW_YORK, "2024-03-04 05:00:00"),
        ("2020W53", "iso", "UTC", "2020-12-28 00:00:00"),
        ("2021-W53", "iso", "UTC", None),
        ("2024-03-07", "iso", NEW_YORK, "2024-03-07 05:00:00"),
        ("07/03/24", "dd/MM/yy", "UTC", "2024-03-07 00:00:00"),
        ("7/3/24", "d/M/yy", "UTC", "2024-03-07 00:00:00"),
        ("31/02/24", "dd/MM/yy", "UTC", None),
        ("2024-03-07", "dd/MM/yy", "UTC", None),
        ("03/07/2024 23:30:00", "MM/dd/yyyy HH:mm:ss", NEW_YORK, "2024-03-08 04:30:00"),
        ("03/07/2024 23:30 +01:00", "MM/dd/yyyy HH:mm XXX", NEW_YORK, "2024-03-07 22:30:00"),
        ("", "iso", "UTC", None),
    ]
    frame = spark.createDataFrame([(text,) for text, *_ in cases], "text string").repartition(1)
    for text, spelling, zone, expected in cases:
        (found,) = frame.where(frame["text"] == text).limit(1).select(time_of(frame["text"], spelling, zone)).first()  # type: ignore[misc]
        assert found == (None if expected is None else datetime.fromisoformat(expected)), (text, spelling, zone)
