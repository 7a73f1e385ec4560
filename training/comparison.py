"""Two models of a line on identical rows: pairs for which each of them gave a probability before training on them.

A prediction is kept under the digest of the artefact that came of its run, so nothing is scored anew: the rows are
those that both met, for example what became due on a day on which one was the candidate and the other the incumbent.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from features.errors import GemlineError
from features.exact_frames import exact_frame
from training.evaluate import MetricRow, compare
from training.evaluation_text import to_json, to_markdown
from training.judgement import DUE
from training.judging import PAIR, due
from training.lines import Line

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

    from features.tables import Tables


@dataclass(frozen=True)
class Comparison:
    """Model A against model B.

    Attributes:
        line: model line.
        a: digest of the first.
        b: digest of the second.
        pairs: identical rows.
        only: digest -> pairs with a label that only this one predicted, which are left out.
        table: NE of both and differences, A minus B, by task and slice.
    """

    line: str
    a: str
    b: str
    pairs: int
    only: dict[str, int]
    table: list[MetricRow]

    def markdown(self) -> str:
        """For people."""
        left_out = ", ".join(f"{count:,} that only {digest[:12]} predicted" for digest, count in self.only.items())
        return (
            f"## {self.line}: A = {self.a[:12]} against B = {self.b[:12]}\n\n"
            f"{self.pairs:,} identical pairs of impression and task, each predicted by both before training on it; "
            f"left out: {left_out}. Differences are A minus B, the ratio is A over B, with 95 % intervals of the same "
            "resampled users for both. An interval that holds 0 (differences) or 1 (ratio) leaves it open.\n\n"
            f"{to_markdown(self.table)}"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values, strict JSON."""
        head = {name: getattr(self, name) for name in ("line", "a", "b", "pairs", "only")}
        return {**head, "table": to_json(self.table)}


def compare_models(tables: "Tables", line: Line, a: str, b: str) -> Comparison:
    """Compare two artefacts by their digests; the newest prediction of each counts.

    Args:
        tables: with predictions, labels and impressions published.
        line: model line of both.
        a: digest of the first.
        b: digest of the second.

    Raises:
        GemlineError: it is one artefact, or no labelled pair was predicted by both.
    """
    from pyspark.sql import functions as F

    if a == b:
        raise GemlineError(f"both are {a[:12]}: name two different models to compare")
    given = [
        _newest(tables, line, digest).withColumnRenamed("prediction", name) for digest, name in ((a, "a"), (b, "b"))
    ]
    days = list(tables.readable_days("labels"))
    if not days:
        raise GemlineError("no day of labels is readable; materialize labels first")
    either = due(tables, line, days).join(given[0].join(given[1], PAIR, "full"), PAIR).persist()
    try:
        missing = [F.sum(F.col(name).isNull().cast("bigint")) for name in ("b", "a")]
        total, *only = either.select(F.count("*"), *missing).collect()[0]
        both = either.where("a is not null and b is not null")
        left = {digest: int(count or 0) for digest, count in zip((a, b), only, strict=True)}
        if total == sum(left.values()):
            raise GemlineError(
                f"{a[:12]} and {b[:12]} predicted no labelled pair of {line.name} in common ({left[a]} and {left[b]} "
                "alone): compare models of which one was the incumbent of the other, or trained over the same days"
            )
        return Comparison(
            line.name,
            a,
            b,
            total - sum(left.values()),
            left,
            compare(_by_day(both), tables.world.min_positives, day=DUE),
        )
    finally:
        either.unpersist()


def _newest(tables: "Tables", line: Line, digest: str) -> "DataFrame":
    """A model's newest prediction of each pair."""
    from pyspark.sql import functions as F

    rows = tables.read(line.predictions, list(tables.readable_days(line.predictions)))
    newest = F.max_by("prediction", "scored_ds").alias("prediction")
    return rows.where(rows["digest"] == digest).groupBy(*PAIR).agg(newest)


def _by_day(rows: "DataFrame") -> Iterator["pd.DataFrame"]:
    """A day of labels at a time, so that memory holds one."""
    for (day,) in sorted(rows.select(DUE).distinct().collect()):
        part = exact_frame(rows.where(rows[DUE] == day))
        yield part.rename(columns={"a": "prediction", "b": "prediction_b"})
