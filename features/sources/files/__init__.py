"""Plain log files - CSV, TSV, JSON lines, Parquet - mapped to the canonical tables by a world's YAML alone.

`source.options` says a folder (`path`, relative to the world file) and, for each table, one mapping or several: a
`file` (or a glob below the folder) and `columns`, canonical name to raw name. docs/worlds.md explains every key.
`heads` finds the files, `reading` makes text of them, `shaping` makes rows of a table of that text (joins, conditions,
slates, labels), `classify` parses and judges them. The rules, all of them decided by a row itself and never by its
neighbours:

- **Ids and categories**: `features.sources.ids`. A blank is missing; an impression may lack its user, not its
  ad. Several raw columns are one id, their texts joined by `/`.
- **Lists** (slates, multi-valued attributes, content embeddings): a JSON array, or values with `|` between them; a
  Parquet list is one. Of too many values the first are kept, and the row is noted among the refused ones.
- **Times**: as `times` says, ISO 8601 without it; truncated to microseconds. Without an offset they are UTC, or the
  world's zone under `naive_times: local` (of an hour that a clock shows twice, the first).
- **Days**: impressions by `request_ts`; outcomes and events by `arrival_ts`, or the event's own time where
  that is later or absent; attributes by `known_from`. What is older than the world's first day arrives with
  it, impressions excepted.
- **Keys**: without `impression_id`, xxhash64 of request, ad and position; without `request_id`, xxhash64 of
  user and time.
- **Columns that come and go**: a column that is new in some file is not read until it is mapped; one that some file
  lacks is blank in its rows, but what no row can lack must be in each file.
- **Sampling**: `features.sources.sampling`, with the positives of primary tasks as `features.labels` finds
  them.
- **Refused**, with rule and file: malformed rows, rows without ad or time, unknown surfaces and event types,
  times, numbers, lists and labels that are none, embeddings of another width or with a number that is not finite,
  slates whose lists differ in length, repeated impression ids (the first by time stays), repeated attribute rows and
  repeated keys of joined files. A row without a readable time counts to the newest day asked.

Files are read again at each extraction: nothing of them is kept in memory, so a replaced file is seen.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from features.sources.base import REFUSED_SCHEMA, Extracted, parse_options
from features.sources.canonical import TABLES, conform, empty
from features.sources.files.classify import Classified, classified
from features.sources.files.options import Options, check_mapping
from features.sources.files.sampled import sampled
from features.sources.files.shaping import files_of, shaped
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
    for table, mappings in options.mapped().items():
        for mapping in mappings:
            files_of(world, options, table, mapping)


def extract(spark: "SparkSession", world: World, days: Sequence[str]) -> Extracted:
    """Canonical frames of the given days, and the refused rows.

    Raises:
        WorldError: as `check`.
    """
    read = read_tables(spark, world)
    good = {table: rows.good() for table, rows in read.items()}
    good["impressions"] = sampled(good["impressions"], good["outcomes"], world)
    tables = {table: _of_days(spark, good.get(table), table, world, days) for table in TABLES}
    return Extracted(tables, _refused(spark, read, days))


def read_tables(spark: "SparkSession", world: World, most: int | None = None) -> dict[str, Classified]:
    """All rows of the mapped tables, judged, before sampling.

    Args:
        spark: session.
        world: of this adapter.
        most: rows of each kind of file at most: a sample of the log.

    Raises:
        WorldError: as `check`.
    """
    options = parse_options(Options, world)
    check_mapping(world, options)
    return {
        table: classified(
            [(mapping, shaped(spark, world, options, table, mapping, most)) for mapping in mappings],
            table,
            world,
            options,
        )
        for table, mappings in options.mapped().items()
    }


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
