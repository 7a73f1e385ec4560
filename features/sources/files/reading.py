"""Files as columns of text, read by Spark: one shape for all formats, so that the rules exist once.

Each frame has the raw columns asked for, `_source` (file name), `_line` (the text of a line that could not be split)
and nothing else.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.sources.files.heads import Group, delimiter_of
from features.sources.files.options import Files

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CORRUPT = "_corrupt"
SAMPLED_FILES = 6
NANOS_AS_LONG = "spark.sql.legacy.parquet.nanosAsLong"
LISTS = ("list", "large_list", "fixed_size_list")


def read_text(
    spark: "SparkSession", groups: Sequence[Group], files: Files, names: Sequence[str], most: int | None = None
) -> "DataFrame":
    """All rows of some files.

    Args:
        spark: session.
        groups: the files, as `heads.located` gives them.
        files: how they are written.
        names: raw columns wanted; a file that lacks one has it blank.
        most: about so many rows, the first ones of a few files of each group; None: all.
    """
    if most is None:
        frames = [_read(spark, group, files, names) for group in groups]
    else:
        some = [replace(group, paths=(path,)) for group in groups for path in _spread(group.paths)]
        frames = [_read(spark, group, files, names).limit(-(-most // len(some))) for group in some]
    return reduce(lambda left, right: left.unionByName(right), frames)


def _spread(paths: Sequence[Path]) -> list[Path]:
    """A few files, the first and the last among them."""
    steps = min(SAMPLED_FILES, len(paths)) - 1
    return [paths[at * (len(paths) - 1) // max(steps, 1)] for at in range(steps + 1)]


def _read(spark: "SparkSession", group: Group, files: Files, names: Sequence[str]) -> "DataFrame":
    paths = [str(path) for path in group.paths]
    if group.format == "parquet":
        return _read_parquet(spark, group, paths, names)
    if group.format == "jsonl":
        frame = spark.read.schema(_text_schema(names)).json(paths, columnNameOfCorruptRecord=CORRUPT)
        return _texts(frame, {name: F.col(quoted(name)) for name in names})
    frame = spark.read.schema(_text_schema(group.names)).csv(
        paths,
        header=not files.names,
        sep=delimiter_of(files, group.format),
        quote=files.quote,
        escape=files.quote,
        multiLine=files.line_breaks,
        # found out by the first line otherwise, and a line that ends in another way is then malformed
        **({"lineSep": "\n"} if files.line_breaks else {}),
        columnNameOfCorruptRecord=CORRUPT,
    )
    texts = {name: F.col(quoted(name)) for name in group.names}
    # what is left of CRLF
    texts[group.names[-1]] = F.regexp_replace(texts[group.names[-1]], "\r$", "")
    return _texts(frame, {name: texts.get(name, F.lit(None)) for name in names})


def _read_parquet(spark: "SparkSession", group: Group, paths: list[str], names: Sequence[str]) -> "DataFrame":
    types = dict(group.head)
    if any(kind.startswith("timestamp[ns") for kind in types.values()):
        # Spark refuses nanoseconds otherwise, naming neither file nor column
        spark.conf.set(NANOS_AS_LONG, "true")
    frame = spark.read.parquet(*paths)
    read = dict(frame.dtypes)
    texts = {name: _as_text(name, types[name], read[name]) if name in types else F.lit(None) for name in names}
    return _texts(frame.withColumn(CORRUPT, F.lit(None)), texts)


def _texts(frame: "DataFrame", texts: "dict[str, Column]") -> "DataFrame":
    return frame.select(
        *(text.cast("string").alias(name) for name, text in texts.items()),
        F.col("_metadata.file_name").alias("_source"),
        F.col(CORRUPT).cast("string").alias("_line"),
    )


def _text_schema(names: Sequence[str]) -> str:
    return ", ".join(f"{quoted(name)} string" for name in [*names, CORRUPT])


def _as_text(raw: str, kind: str, read: str) -> "Column":
    """A raw column as text; instants with an offset, wall clocks without, nanoseconds cut to microseconds."""
    column = F.col(quoted(raw))
    if kind.startswith(LISTS):
        return F.to_json(column)
    if not kind.startswith("timestamp"):
        return column.cast("string")
    if read == "bigint":
        # in integers: as a double, a count of nanoseconds is off by hundreds
        column = F.timestamp_micros(F.expr(f"({quoted(raw)} - pmod({quoted(raw)}, 1000)) div 1000"))
    return F.concat(column.cast("string"), F.lit("Z" if "tz=" in kind else ""))


def quoted(name: str) -> str:
    """A column's name inside an SQL expression, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
