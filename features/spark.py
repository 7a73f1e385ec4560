"""The Spark session: one a process, with Delta, in UTC; a Spark master of the user's takes over by a setting.

Environment: `GEMLINE_SPARK_MASTER` (default `local[*]`), `GEMLINE_SPARK_DRIVER_MEMORY` (default `4g`) and
`GEMLINE_SPARK_CONF`, a path of a properties file whose `key value` lines win over everything here.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from features.jars import jar_paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    # 50 by default: a commit to a small table then costs seconds of empty tasks
    "spark.databricks.delta.snapshotPartitions": "2",
    # the trainer reads the plain Parquet files of a version
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}


def spark_conf() -> dict[str, str]:
    """All settings of the session, the user's own last."""
    conf = dict(DEFAULTS)
    conf["spark.jars"] = ",".join(jar_paths())
    conf["spark.driver.memory"] = os.environ.get("GEMLINE_SPARK_DRIVER_MEMORY", "4g")
    # on few cores the collector that stops for a moment leaves more of them to the work than the concurrent one
    log4j = f"-Dlog4j2.configurationFile={Path(__file__).parent / 'log4j2.properties'}"
    conf["spark.driver.extraJavaOptions"] = f"{log4j} -XX:+UseParallelGC"
    own = os.environ.get("GEMLINE_SPARK_CONF")
    if own:
        lines = Path(own).read_text().splitlines()
        conf |= dict(line.split(None, 1) for line in lines if line.strip() and not line.startswith("#"))
    return conf


def session() -> "SparkSession":
    """The process's session, started on first use.

    Raises:
        GemlineError: the Delta jars are absent (`make setup` brings them).
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # workers run this very interpreter, not the first python3 of PATH
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("gemline").master(os.environ.get("GEMLINE_SPARK_MASTER", "local[*]"))
    for key, value in spark_conf().items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
