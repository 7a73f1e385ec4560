"""From a vertical's promoted checkpoint to a live package."""

from typing import TYPE_CHECKING, Any

from features.errors import GemlineError
from orchestration.releasing import go_live

if TYPE_CHECKING:
    from features.tables import Tables


def package_promoted(tables: "Tables", vertical: str, ds: str) -> dict[str, Any]:
    """Export the model of a day if it was promoted, and move the vertical's live pointer to the package.

    Returns:
        What the UI shows: decision, digest, generation, difference to the trainer, whether it is live.

    Raises:
        GemlineError: nothing was decided about the day.
        PackageError: the package would not give the trainer's probabilities; the live one stays.
    """
    from serving.export import export
    from training.plan import ModelRef, Plan

    home = tables.home
    made = tables.decisions.of_day(vertical, ds)
    if made is None:
        raise GemlineError(f"nothing was decided about {vertical} of {ds}; materialize its release first")
    if made.decision != "promoted":
        return {"decision": made.decision, "reason": made.reason, "live": False}
    checkpoint = home.root / made.path
    plan = Plan.read(checkpoint.parent / "plan.json")
    packages = home.releases / vertical / "packages"
    exported = export(ModelRef(str(checkpoint), made.digest), plan, packages)
    live = go_live(home, made, exported.manifest["digest"], exported.folder.relative_to(home.root).as_posix())
    shown = {name: exported.manifest[name] for name in ("digest", "model_digest", "generation", "untrained_rows")}
    return {"decision": made.decision, "live": live, "largest_difference": exported.difference, **shown}
