"""Choosing the model that becomes a generation."""

from typing import TYPE_CHECKING, Any

from features.errors import GemlineError
from orchestration.assets.lines import GEM

if TYPE_CHECKING:
    from features.tables import Tables


def freeze_promoted(tables: "Tables", ds: str = "", seed: int = 7) -> dict[str, Any]:
    """Freeze the promoted GEM of a day, by default the newest; returns the generation's manifest.

    Raises:
        GemlineError: there is no such promoted model.
    """
    from training.loopfm.freeze import freeze

    promoted = {day: row for day, row in tables.decisions.by_day(GEM).items() if row.decision == "promoted"}
    if not promoted:
        raise GemlineError("no GEM model was promoted yet; materialize gem_release of a day first")
    if ds and ds not in promoted:
        raise GemlineError(f"GEM of {ds} was not promoted; promoted days: {', '.join(sorted(promoted))}")
    return freeze(tables, promoted[ds or max(promoted)], seed)
