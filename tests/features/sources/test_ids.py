"""Ids from text: exact integers, hashes for the rest, the same in Spark and Python."""

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from features.ids import id_of
from features.sources.ids import id64

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTEGERS = [
    "0",
    "7",
    "-7",
    str(2**53 + 1),
    str(2**62 + 1),
    str(2**62 + 2),
    str(2**63 - 1),
    str(-(2**63)),
    " 12 ",
]
OTHERS = ["007", "+7", "7.0", "-0", "1e3", str(2**63), "guest", "ünï", "0x10", "a" * 100]


@pytest.mark.parametrize("text", INTEGERS)
def test_integers_stay_exact(text: str) -> None:
    assert id_of(text) == int(text)


def test_other_text_is_hashed_and_kept_apart() -> None:
    hashed = [id_of(text) for text in OTHERS]
    assert len(set(hashed)) == len(OTHERS)
    assert not set(hashed) & {int(text) for text in INTEGERS}


def test_blank_is_missing() -> None:
    assert id_of("") is None and id_of("  ") is None


@pytest.mark.assets
def test_spark_and_python_agree(spark: "SparkSession") -> None:
    texts = [*INTEGERS, *OTHERS, "", "  "]
    frame = spark.createDataFrame([(text,) for text in texts], "text string")
    found = frame.select("text", id64(F.col("text")).alias("id")).collect()
    assert {row["text"]: row["id"] for row in found} == {text: id_of(text) for text in texts}
