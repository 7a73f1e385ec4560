"""The decisions ledger: what became of every trained model of a day.

`promoted` becomes the parent of the next day and goes live; `carried` becomes the parent only; `rejected`
becomes neither.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from features.tables.append_log import AppendLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class ModelDecision:
    """One row of the ledger.

    Attributes:
        model: name of the model line (`gem`, or a vertical).
        ds: day P that it was made for.
        digest: of the judged artefact.
        decision: promoted, carried or rejected.
        reason: one sentence.
        evidence: JSON object of counts, metrics and intervals.
        path: folder of the checkpoint, relative to the world's home.
    """

    model: str
    ds: str
    digest: str
    decision: str
    reason: str
    evidence: str
    path: str


class Decisions(AppendLog[ModelDecision]):
    """Reads and appends decisions; the newest row of a (model, day) counts."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        """Open the ledger at `folder`, which need not exist yet."""
        super().__init__(spark, folder, ModelDecision)

    def of_day(self, model: str, ds: str) -> ModelDecision | None:
        """What was decided last for a day."""
        return self.by_day(model).get(ds)

    def parent(self, model: str, ds: str) -> ModelDecision | None:
        """Newest promoted or carried model of a day before `ds`: training goes on from it."""
        return self._newest(model, ds, ("promoted", "carried"))

    def incumbent(self, model: str, ds: str) -> ModelDecision | None:
        """Newest promoted model of a day before `ds`: the candidate is judged against it."""
        return self._newest(model, ds, ("promoted",))

    def by_day(self, model: str) -> dict[str, ModelDecision]:
        """Day to its newest decision."""
        return {row.ds: row for row in self.rows() if row.model == model}

    def _newest(self, model: str, ds: str, kinds: tuple[str, ...]) -> ModelDecision | None:
        days = {day: row for day, row in self.by_day(model).items() if day < ds and row.decision in kinds}
        return days[max(days)] if days else None
