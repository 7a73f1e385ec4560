"""From a trainer's `predictions.parquet` to rows of the `predictions` table."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def control_digest(digest: str) -> str:
    """Under which name the control of a vertical keeps its predictions: it is part of the same artefact."""
    return f"alone-{digest}"


def predictions(
    spark: "SparkSession", ds: str, folder: Path, manifest: dict[str, Any], incumbent: str | None
) -> "DataFrame":
    """Rows of scored day `ds`: the candidate's, its control's and the incumbent's, as far as there are any.

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
    digest = manifest["digest"]
    names = {"candidate": digest, "alone": control_digest(digest)} | ({"incumbent": incumbent} if incumbent else {})
    pairs = [F.lit(part) for role, name in names.items() for part in (role, name)]
    named = rows.withColumn("digest", F.create_map(*pairs)[F.col("role")])
    order = Window.partitionBy("ds", "impression_id", "task", "digest").orderBy(F.col("scored_ds").desc())
    newest = named.withColumn("rank", F.row_number().over(order)).where("rank = 1")
    return newest.select(F.lit(ds).alias("scored_ds"), "ds", "impression_id", "task", "digest", "prediction")
