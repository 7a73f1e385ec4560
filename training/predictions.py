"""From a trainer's `predictions.parquet` to rows of the `predictions` table."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def predictions(
    spark: "SparkSession", ds: str, folder: Path, manifest: dict[str, Any], incumbent: str | None
) -> "DataFrame":
    """Rows of scored day `ds`: the candidate's and, where there is one, the incumbent's.

    Predictions of a walked day come from the weights of that moment; they carry the digest of the final model. When
    a pair was scored both in the walk and for the gate, the gate's counts.

    Args:
        spark: session.
        ds: day P.
        folder: of the committed checkpoint.
        manifest: of that checkpoint.
        incumbent: digest of the incumbent that scored beside it.
    """
    rows = spark.read.parquet(str(folder / "predictions.parquet"))
    digest = F.when(F.col("role") == "candidate", F.lit(manifest["digest"])).otherwise(F.lit(incumbent))
    named = rows.withColumn("digest", digest)
    order = Window.partitionBy("ds", "impression_id", "task", "digest").orderBy(F.col("scored_ds").desc())
    newest = named.withColumn("rank", F.row_number().over(order)).where("rank = 1")
    return newest.select(F.lit(ds).alias("scored_ds"), "ds", "impression_id", "task", "digest", "prediction")
