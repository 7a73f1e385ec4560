"""Which generation a vertical's day pins, and the plan of its training.

A vertical switches to a newer generation once that has `warm_up` days of outputs before the day; it then starts
cold, since a new generation's vectors mean something else. Until then it continues with its parent's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from features.days import day_range, shift
from features.errors import GemlineError
from training import checkpoint
from training.chain import Lineage, day_files, lineage, trainer_plan
from training.lines import Line
from training.loopfm import generation as generations
from training.plan import GenerationRef, Plan, TransferPlan
from training.recipes import Recipe

if TYPE_CHECKING:
    from features.tables import ModelDecision, Tables


def vertical_plan(tables: "Tables", line: Line, ds: str, recipe: Recipe, seed: int, look_back: int) -> Plan:
    """Everything that training a vertical of day `ds` may read.

    Raises:
        GemlineError: the recipe's history is longer than what the feature store serves, or no generation has
            outputs before the day.
        GateClosed: a needed day of a table is not readable.
    """
    longest = tables.world.history.recent_length
    if recipe.model.history_length > longest:
        raise GemlineError(
            f"recipe {recipe.name}: model.history_length is {recipe.model.history_length}, but a request is answered "
            f"from history.recent_length = {longest} events; lower the one or raise the other"
        )
    found = lineage(tables, line.name, ds, look_back)
    outputs = output_days(tables, shift(ds, -1))
    current, rival = (_pinned_by(tables, decision) for decision in (found.parent, found.incumbent))
    frozen = generations.manifests(tables.home, {name for name in (current, rival) if name})
    known = {manifest["name"]: generations.reference(manifest) for manifest in frozen}
    pinned = known[pin(outputs, list(known), ds, tables.world.transfer.warm_up, current)]
    if found.parent and current != pinned.name:
        found = replace(found, parent=None)
    found = replace(found, walk=_walk(found, pinned, outputs[pinned.name], ds, look_back))
    days = sorted({*outputs[pinned.name], *(outputs.get(rival, []) if rival else [])})
    transfer = TransferPlan(
        generation=pinned,
        memory_length=tables.world.transfer.memory_length,
        fm_outputs=day_files(tables, "fm_outputs", days),
        vectors=day_files(tables, "solaris_train_vectors", _published(tables, "solaris_train_vectors", ds)),
        incumbent=known[rival] if rival else None,
    )
    return trainer_plan(tables, line, ds, recipe, seed, found, transfer)


def pin(outputs: Mapping[str, Sequence[str]], names: Sequence[str], ds: str, warm_up: int, current: str | None) -> str:
    """Name of the generation for day `ds`.

    Args:
        outputs: generation -> days before `ds` of which it has outputs.
        names: generations, oldest first.
        ds: day P.
        warm_up: days that a generation must have before verticals switch to it.
        current: the parent's generation.

    Raises:
        GemlineError: none has outputs before the day.
    """
    needed = set(day_range(shift(ds, -warm_up), shift(ds, -1)))
    for name in reversed(names):
        if needed <= set(outputs.get(name, ())):
            return name
    if current is not None and current in names:
        return current
    # a first vertical rather learns from few days than not at all
    for name in reversed(names):
        if outputs.get(name):
            return name
    raise GemlineError(
        f"no generation has outputs of days before {ds}; materialize fm_generation, then fm_outputs of earlier days"
    )


def output_days(tables: "Tables", last: str) -> dict[str, list[str]]:
    """Generation -> days up to `last` of which it has outputs, in order; a closed day counts for all of them."""
    days = _published(tables, "fm_outputs", last)
    if not days:
        return {}
    rows = tables.read("fm_outputs", days).select("ds", "fm_generation").distinct().collect()
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row["fm_generation"], set()).add(row["ds"])
    empty = set(days) - {row["ds"] for row in rows}
    return {name: sorted(own | {ds for ds in empty if ds > min(own)}) for name, own in found.items()}


def _published(tables: "Tables", table: str, last: str) -> list[str]:
    return [ds for ds in tables.readable_days(table) if ds <= last]


def _pinned_by(tables: "Tables", decision: "ModelDecision | None") -> str | None:
    if decision is None:
        return None
    return str(checkpoint.manifest_of(tables.home.root / decision.path, decision.digest)["generation"])


def _walk(found: Lineage, pinned: GenerationRef, outputs: Sequence[str], ds: str, look_back: int) -> tuple[str, ...]:
    """A parent's walk goes on; a cold start begins with the first day that the generation may serve.

    Raises:
        GemlineError: there is no such day before `ds`.
    """
    if found.parent:
        return found.walk
    first = max(min(outputs), shift(pinned.last_label_day, 1), shift(ds, -look_back))
    walk = tuple(day_range(first, shift(ds, -1)))
    if not walk:
        raise GemlineError(
            f"{pinned.name} has seen labels up to {pinned.last_label_day}, so nothing before {ds} may be learned with "
            "it; choose a later day"
        )
    return walk
