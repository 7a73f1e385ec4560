"""Feast without its side effects: warnings, prints, a Spark parser setting, temporary views left behind."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMED = (
    (RuntimeWarning, "The spark offline store is an experimental feature"),
    (RuntimeWarning, "The spark data source API is an experimental feature"),
)
QUOTED_REGEX = "spark.sql.parser.quotedRegexColumnNames"


def ignore_named() -> None:
    """Silence the warnings named above from here on: Feast repeats them at every read of its registry."""
    for category, message in NAMED:
        warnings.filterwarnings("ignore", message=message, category=category)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the warnings named above and what Feast prints; every other warning passes."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        ignore_named()
        yield


@contextmanager
def clean_session(spark: "SparkSession") -> Iterator[None]:
    """Put the session back: Feast makes backticks mean regular expressions and leaves temporary views.

    A frame that was analysed inside stays valid, since its plan no longer needs the views.
    """
    before = {table.name for table in spark.catalog.listTables() if table.isTemporary}
    setting = spark.conf.get(QUOTED_REGEX, "false")
    try:
        yield
    finally:
        spark.conf.set(QUOTED_REGEX, setting or "false")
        for table in spark.catalog.listTables():
            if table.isTemporary and table.name not in before:
                spark.catalog.dropTempView(table.name)
