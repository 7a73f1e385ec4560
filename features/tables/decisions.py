"""The decisions ledger: what became of every trained model of a day.

`promoted` becomes the parent of the next day and goes live; `carried` becomes the parent only; `rejected` becomes
neither, and `rolled_back` takes back what was decided before. Every row is about one digest of a day: a day that is
trained again adds another, and the newest row of each digest stands.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from features.tables.append_log import AppendLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ACCEPTED = ("promoted", "carried")
ROLLED_BACK = "rolled_back"


@dataclass(frozen=True)
class ModelDecision:
    """One row of the ledger.

    Attributes:
        model: name of the model line (`gem`, or a vertical).
        ds: day P that it was made for.
        digest: of the judged artefact.
        decision: promoted, carried, rejected or rolled_back.
        reason: one sentence.
        evidence: JSON object of counts, metrics and intervals; of a rollback, what it took back.
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
    """Reads and appends decisions; the newest row of a (model, day, digest) stands."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        """Open the ledger at `folder`, which need not exist yet."""
        super().__init__(spark, folder, ModelDecision)

    def of_day(self, model: str, ds: str) -> ModelDecision | None:
        """What was decided last for a day."""
        return self.by_day(model).get(ds)

    def of_digest(self, model: str, ds: str, digest: str) -> ModelDecision | None:
        """What stands about one artefact of a day."""
        about = [row for row in self.standing(model) if (row.ds, row.digest) == (ds, digest)]
        return about[0] if about else None

    def parent(self, model: str, ds: str) -> ModelDecision | None:
        """Newest promoted or carried model of a day before `ds`: training goes on from it."""
        return self._newest(model, ds, ACCEPTED)

    def incumbent(self, model: str, ds: str) -> ModelDecision | None:
        """Newest promoted model of a day before `ds`: the candidate is judged against it."""
        return self._newest(model, ds, ("promoted",))

    def newest(self, model: str) -> list[ModelDecision]:
        """Parent and incumbent of a day that is still to come, without those that are not there."""
        found = (self._newest(model, None, kinds) for kinds in (ACCEPTED, ("promoted",)))
        return [row for row in found if row is not None]

    def by_day(self, model: str) -> dict[str, ModelDecision]:
        """Day to its newest decision."""
        return {row.ds: row for row in self.rows() if row.model == model}

    def of_kinds(self, model: str, kinds: Collection[str]) -> dict[str, ModelDecision]:
        """Day to the newest standing decision of some kinds, in date order."""
        return {row.ds: row for row in self.standing(model) if row.decision in kinds}

    def standing(self, model: str) -> list[ModelDecision]:
        """The newest row of each (day, digest), by day and, within one, the newest last."""
        found: dict[tuple[str, str], ModelDecision] = {}
        for row in self.rows():
            if row.model == model:
                found.pop((row.ds, row.digest), None)
                found[row.ds, row.digest] = row
        return sorted(found.values(), key=lambda row: row.ds)

    def _newest(self, model: str, ds: str | None, kinds: Collection[str]) -> ModelDecision | None:
        kept = [row for day, row in self.of_kinds(model, kinds).items() if ds is None or day < ds]
        return kept[-1] if kept else None
