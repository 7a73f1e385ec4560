"""The audit: nothing to check is never a pass, and pandas and Spark find the same faults."""

from pathlib import Path

import pandas as pd
import pytest

from features.errors import GemlineError
from features.quality import audit as audit_module
from features.quality.audit import validate
from features.quality.suites import DOMAINS, describe, suite_of
from features.tables.specs import SPECS, TableSpec, spec_of
from features.worlds import load_world

WORLD = load_world("tiny")


@pytest.mark.parametrize("table", sorted(SPECS))
def test_every_table_has_a_suite_with_critical_rules(table: str) -> None:
    assert any(entry.severity == "critical" for entry in suite_of(spec_of(table), WORLD))
    assert describe(spec_of(table), WORLD)


def test_an_empty_suite_is_an_error() -> None:
    """B06 (c)."""
    with pytest.raises(GemlineError, match="empty suite"):
        suite_of(TableSpec("bare", "nothing", ()), WORLD)


def labels(**columns: list[object]) -> pd.DataFrame:
    good = {
        "label_ds": ["d", "d"],
        "ds": ["d", "d"],
        "impression_id": [1, 2],
        "task": ["click", "buy"],
        "label": [0.0, 1.0],
        "weight": [2.0, 1.0],
    }
    return pd.DataFrame(good | columns)


@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        ({"label": [2.0, 1.0]}, "expect_column_values_to_be_in_set"),
        ({"label": [None, 1.0]}, "expect_column_values_to_not_be_null"),
        ({"task": ["click", "sneeze"]}, "expect_column_values_to_be_in_set"),
        ({"weight": [0.5, 1.0]}, "expect_column_values_to_be_between"),
        ({"impression_id": [1, 1], "task": ["buy", "buy"]}, "expect_compound_columns_to_be_unique"),
    ],
)
def test_a_broken_rule_is_named_with_a_sample(columns: dict[str, list[object]], rule: str) -> None:
    assert validate(spec_of("labels"), WORLD, labels()).success
    fault = audit_module._first_fault(validate(spec_of("labels"), WORLD, labels(**columns)))
    assert fault is not None
    assert fault[0] == rule


@pytest.mark.assets
def test_large_days_are_audited_on_spark_with_the_same_outcome(spark, tmp_path: Path, monkeypatch) -> None:
    good = spark.createDataFrame(labels().assign(label_ds="2024-03-07"))
    bad = spark.createDataFrame(labels(label=[2.0, 1.0]).assign(label_ds="2024-03-08"))
    staging = tmp_path / "staged"
    good.union(bad).write.partitionBy("label_ds").parquet(str(staging))
    staged = spark.read.schema(good.schema).parquet(str(staging))
    days = {"2024-03-07": 2, "2024-03-08": 2}
    arguments = (spec_of("labels"), WORLD, staging, staged, days, {})
    on_pandas = audit_module.audit(*arguments)
    monkeypatch.setattr(audit_module, "PANDAS_ROWS", 1)
    on_spark = audit_module.audit(*arguments)
    assert list(on_pandas) == list(on_spark) == ["2024-03-08"]
    assert on_pandas["2024-03-08"][0] == on_spark["2024-03-08"][0]


def test_all_domain_suites_belong_to_a_table() -> None:
    assert set(DOMAINS) <= set(SPECS)
