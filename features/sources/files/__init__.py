"""Plain log files - CSV, TSV, JSON lines, Parquet - mapped to the canonical tables by a world's YAML alone.

`source.options` says a folder (`path`, relative to the world file) and, for each table, a `file` (or a glob
below the folder) and `columns`, canonical name to raw name. The rules, all of them decided by a row itself
and never by its neighbours:

- **Ids and categories**: `features.sources.ids`. A blank is missing; an impression may lack its user, not its
  ad.
- **Lists** (multi-valued attributes, content embeddings): a JSON array, or values with `|` between them; a Parquet
  list is one. Of too many values the first are kept, and the row is noted among the refused ones.
- **Times**: ISO 8601, truncated to microseconds. Without an offset they are UTC, or the world's zone under
  `naive_times: local` (of an hour that a clock shows twice, the first). `epoch: s | ms | us | ns` reads
  numbers instead.
- **Days**: impressions by `request_ts`; outcomes and events by `arrival_ts`, or the event's own time where
  that is later or absent; attributes by `known_from`. What is older than the world's first day arrives with
  it, impressions excepted.
- **Keys**: without `impression_id`, xxhash64 of request, ad and position; without `request_id`, xxhash64 of
  user and time.
- **Sampling**: `features.sources.sampling`, with the positives of primary tasks as `features.labels` finds
  them.
- **Refused**, with rule and file: malformed rows, rows without ad or time, unknown surfaces and event types,
  numbers and lists that are none, embeddings of another width or with a number that is not finite, repeated
  impression ids (the first by time stays) and repeated attribute rows. A row without a readable time counts to
  the newest day asked.

Files are read again at each extraction: nothing of them is kept in memory, so a replaced file is seen.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from features.sources.base import REFUSED_SCHEMA, Extracted, parse_options
from features.sources.canonical import TABLES, conform, empty
from features.sources.files.classify import Classified, classified
from features.sources.files.options import Options, check_mapping
from features.sources.files.reading import located, read_text
from features.sources.files.sampled import sampled
from features.worlds.schema import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check(world: World) -> None:
    """Refuse options that do not fit the world or the files; reads headers, no rows.

    Raises:
        WorldError: names the key, or the file and column.
    """
    options = parse_options(Options, world)
    check_mapping(world, options)
    for table, mapping in options.mapped().items():
        located(world, options, table, mapping)


def extract(spark: "SparkSession", world: World, days: Sequence[str]) -> Extracted:
    """Canonical frames of the given days, and the refused rows.

    Raises:
        WorldError: as `check`.
    """
    options = parse_options(Options, world)
    check_mapping(world, options)
    read = {
        table: classified(read_text(spark, world, options, table, mapping), table, world, options)
        for table, mapping in options.mapped().items()
    }
    good = {table: rows.good() for table, rows in read.items()}
    good["impressions"] = sampled(good["impressions"], good["outcomes"], world)
    tables = {table: _of_days(spark, good.get(table), table, world, days) for table in TABLES}
    return Extracted(tables, _refused(spark, read, days))


def _of_days(
    spark: "SparkSession", frame: "DataFrame | None", table: str, world: World, days: Sequence[str]
) -> "DataFrame":
    if frame is None:
        return empty(spark, table, world)
    return conform(frame.where(frame["ds"].isin(list(days))), table, world)


def _refused(spark: "SparkSession", read: dict[str, Classified], days: Sequence[str]) -> "DataFrame":
    frame = spark.createDataFrame([], REFUSED_SCHEMA)
    for rows in read.values():
        frame = frame.unionByName(rows.refused(days))
    return frame
