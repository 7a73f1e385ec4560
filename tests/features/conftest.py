"""One Spark session for all feature tests of a process."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> "SparkSession":
    """The product's own session."""
    from features.spark import session

    return session()
