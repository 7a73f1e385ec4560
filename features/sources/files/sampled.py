"""Sampling of a log whose impressions and outcomes lie in files: positives are found as labels find them."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.sources.canonical import conform
from features.sources.sampling import sample
from features.worlds.schema import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def sampled(impressions: "DataFrame", outcomes: "DataFrame", world: World) -> "DataFrame":
    """Kept impressions, with `keep_rate`.

    Args:
        impressions: good rows of all days (a later one can be the rival for an outcome).
        outcomes: good rows of all days.
        world: rates and tasks.
    """
    if all(entry.keep_rate == 1.0 for entry in world.surfaces):
        return sample(impressions, world, F.lit(False))
    # here and not above: an adapter that is not used should not cost its imports
    from features.labels import Log, primary_positives

    log = Log(world, conform(impressions, "impressions", world), conform(outcomes, "outcomes", world))
    positives = primary_positives(log).select("impression_id", F.lit(True).alias("_positive"))
    joined = impressions.join(positives, "impression_id", "left")
    return sample(joined, world, F.coalesce("_positive", F.lit(False))).drop("_positive")
