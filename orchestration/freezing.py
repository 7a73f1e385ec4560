"""Choosing the model that becomes a generation."""

from typing import TYPE_CHECKING, Any

from features.errors import GemlineError
from features.worlds.schema import GEM

if TYPE_CHECKING:
    from features.tables import Tables


def freeze_promoted(tables: "Tables", ds: str = "", seed: int = 7) -> dict[str, Any]:
    """Freeze the promoted GEM of a day, by default the newest; returns the generation's manifest.

    Raises:
        GemlineError: there is no such promoted model.
    """
    from training.loopfm.freeze import freeze

    promoted = tables.decisions.of_kinds(GEM, ("promoted",))
    if not promoted:
        raise GemlineError("no promoted GEM model stands; materialize gem_release of a day first")
    if ds and ds not in promoted:
        raise GemlineError(f"GEM of {ds} was not promoted, or rolled back; promoted days: {', '.join(promoted)}")
    return freeze(tables, promoted[ds or max(promoted)], seed)
