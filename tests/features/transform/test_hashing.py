"""XXH64 against the reference implementation and known values, and rows of tables."""

from typing import TYPE_CHECKING

import numpy as np
import pytest
import xxhash

from features.transform.hashing import rows_of, string_id, string_ids, table_salt, xxh64_bytes, xxh64_int64

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LENGTHS = [0, 1, 3, 4, 7, 8, 12, 31, 32, 33, 63, 64, 100]


@pytest.mark.parametrize("seed", [0, 42, 2**64 - 1])
@pytest.mark.parametrize("length", LENGTHS)
def test_bytes_equal_the_reference(length: int, seed: int) -> None:
    data = np.random.default_rng(length).bytes(length)
    assert xxh64_bytes(data, seed) == xxhash.xxh64_intdigest(data, seed)


@pytest.mark.parametrize("seed", [0, 42, 2**64 - 1])
def test_integers_equal_the_reference(seed: int) -> None:
    ids = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 500)
    ids[:4] = [0, -1, 2**63 - 1, -(2**63)]
    expected = [xxhash.xxh64_intdigest(int(i).to_bytes(8, "little", signed=True), seed) for i in ids]
    assert xxh64_int64(ids, seed).tolist() == expected


def test_string_id_is_sparks() -> None:
    unsigned = xxhash.xxh64_intdigest(b"Spark", 42)
    assert string_id("Spark") == unsigned - (2**64 if unsigned >= 2**63 else 0)
    assert -(2**63) <= string_id("größe") < 2**63


def test_strings_in_bulk_keep_places_and_nulls() -> None:
    texts = np.array(["b", None, "a", "b"], dtype=object)
    ids = string_ids(texts, np.array([False, True, False, False]))
    assert ids.tolist() == [string_id("b"), 0, string_id("a"), string_id("b")]


def test_rows_are_zero_only_when_missing_and_inside_the_table() -> None:
    ids = np.arange(5_000)
    rows = rows_of(ids, ids % 7 == 0, 11, table_salt("ad"))
    assert (rows[ids % 7 == 0] == 0).all()
    assert set(rows[ids % 7 != 0]) == set(range(1, 11))


def test_rows_follow_the_formula_and_the_salt() -> None:
    digest = xxhash.xxh64_intdigest((123).to_bytes(8, "little"), table_salt("ad"))
    present = np.zeros(1, dtype=bool)
    assert rows_of(np.array([123]), present, 1000, table_salt("ad"))[0] == 1 + digest % 999
    other = rows_of(np.arange(100), np.zeros(100, dtype=bool), 1000, table_salt("user"))
    assert (other != rows_of(np.arange(100), np.zeros(100, dtype=bool), 1000, table_salt("ad"))).mean() > 0.9


@pytest.mark.assets
def test_spark_computes_the_same_ids(spark: "SparkSession") -> None:
    texts = ["", "a", "PRIVATE LABEL", "größe", "x" * 77]
    rows = spark.createDataFrame([(text,) for text in texts], "text string")
    frame = rows.selectExpr("text", "xxhash64(text) id")
    assert {row.text: row.id for row in frame.collect()} == {text: string_id(text) for text in texts}
