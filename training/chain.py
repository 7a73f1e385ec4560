"""The chain of models: which one a day continues from, which one it must beat, and what it walks in between.

A model of day P has trained on labels due before P. So the model of the next day starts with its parent's own
day, and a cold start with the look-back window; both end the day before P.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from features.days import day_range, shift
from features.errors import GemlineError
from features.schema_of import history_days, schema_of
from training.lines import Line
from training.plan import DayFiles, ModelRef, Plan, TransferPlan
from training.recipes import Recipe

if TYPE_CHECKING:
    from features.tables import ModelDecision, PinnedDay, Tables


@dataclass(frozen=True)
class Lineage:
    """Where a day's model comes from.

    Attributes:
        parent: newest promoted or carried model of an earlier day; None for a cold start.
        incumbent: newest promoted model of an earlier day; None before the first release.
        walk: label days to train on, in order.
    """

    parent: "ModelDecision | None"
    incumbent: "ModelDecision | None"
    walk: tuple[str, ...]


def lineage(tables: "Tables", model: str, ds: str, look_back: int) -> Lineage:
    """Parent, incumbent and walk of the model of day `ds`.

    Raises:
        GemlineError: `ds` is the world's first day, so there is nothing to walk.
    """
    parent = tables.decisions.parent(model, ds)
    first = parent.ds if parent else max(shift(ds, -look_back), tables.world.first_day)
    walk = tuple(day_range(first, shift(ds, -1)))
    if not walk:
        raise GemlineError(f"{model} of {ds}: no day before it to train on; choose a later day")
    return Lineage(parent, tables.decisions.incumbent(model, ds), walk)


def trainer_plan(
    tables: "Tables",
    line: Line,
    ds: str,
    recipe: Recipe,
    seed: int,
    found: Lineage,
    transfer: TransferPlan | None = None,
    output: str = "",
) -> Plan:
    """Everything that a training run of day `ds` may read, pinned to published versions.

    Args:
        tables: the world's tables.
        line: model line.
        ds: day P.
        recipe: sizes and settings.
        seed: of initial weights and row order.
        found: parent, incumbent and walk.
        transfer: what a vertical gets from the foundation model.
        output: where to write; the line's own folder of the day by default.

    Raises:
        GateClosed: a needed day of a table is not readable.
    """
    due = [*found.walk, ds]
    return Plan(
        world=tables.world.name,
        partition=ds,
        schema=schema_of(tables.world, recipe.model.history_length)
        .part(line.surfaces, line.tasks)
        .without(line.excluded),
        recipe=recipe,
        walk=found.walk,
        output=output or str(output_folder(tables, line.name, ds)),
        seed=seed,
        examples=day_files(tables, "examples", sorted({*due, *_referenced_days(tables, due)})),
        labels=day_files(tables, "labels", due),
        user_history=day_files(tables, "user_history", history_days(tables.world, ds)),
        parent=_reference(tables, found.parent),
        incumbent=_reference(tables, found.incumbent),
        transfer=transfer,
    )


def output_folder(tables: "Tables", model: str, ds: str) -> Path:
    """Folder of the attempts at a model's day."""
    return tables.home.checkpoints / model / ds


def _referenced_days(tables: "Tables", due: Sequence[str]) -> list[str]:
    rows = tables.read("labels", due).select("ds").distinct().collect()
    return [row["ds"] for row in rows]


def day_files(tables: "Tables", table: str, days: Sequence[str]) -> dict[str, DayFiles]:
    """Files of the given days in the version that the ledger names."""
    if not days:
        return {}
    pinned: dict[str, PinnedDay] = tables.files(table, days)
    return {ds: DayFiles(day.content_hash, day.paths) for ds, day in pinned.items()}


def _reference(tables: "Tables", decision: "ModelDecision | None") -> ModelRef | None:
    return ModelRef(str(tables.home.root / decision.path), decision.digest) if decision else None
