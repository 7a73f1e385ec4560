"""What goes into an audit, and what comes out of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from features.quality.shape import Change

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from features.tables.specs import TableSpec


@dataclass(frozen=True)
class Staged:
    """Days that wait for their audit.

    Attributes:
        spec: the table.
        folder: folder of the staged Parquet files.
        frame: the same files in Spark.
        content: day -> content hash.
        rows: day -> number of rows.
        expected: day -> exact number of rows that it must have.
        refused: day -> rows that the source refused; days that are absent are not watched.
        change: how the columns differ from the table's.
    """

    spec: "TableSpec"
    folder: Path
    frame: "DataFrame"
    content: Mapping[str, str]
    rows: Mapping[str, int]
    expected: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    change: Change = field(default_factory=Change)


@dataclass(frozen=True)
class Audited:
    """What an audit found about a day.

    Attributes:
        rule: the first broken critical rule, empty when there is none.
        sample: offending rows as text.
        warnings: sentences about what lets the day through.
        pages: pages of its results, relative to the site of the Data Docs.
    """

    rule: str = ""
    sample: str = ""
    warnings: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()

    def __add__(self, other: "Audited") -> "Audited":
        """Both findings; the first broken rule stands."""
        rule, sample = (self.rule, self.sample) if self.rule else (other.rule, other.sample)
        return Audited(rule, sample, self.warnings + other.warnings, self.pages + other.pages)
