"""The arms of a sweep: one model a mix, walked by the very run that makes a day's model (`training.run`).

An arm's checkpoints stand beside those of the model lines, one folder an arm and day, so what holds of any checkpoint
holds of them: a plan that was trained before by the same code is not trained again, an arm that broke off is walked
anew, and whoever asks what was learned from a user finds them. No release and no chain of models ever looks there.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from features.exact_frames import exact_frame
from training import checkpoint
from training.compute import Compute
from training.judging import as_served
from training.mixing import Mixing
from training.plan import ModelRef, Plan
from training.run import train, trained_before
from training.sweep.grid import label
from training.walk import CANDIDATE, Say

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Arm:
    """A mix and the models that were walked with it, one a leg.

    Attributes:
        mixing: what the arm trains on.
        folders: committed checkpoints, in the order of their legs.
        manifests: of these.
    """

    mixing: Mixing
    folders: tuple[Path, ...] = ()
    manifests: tuple[dict[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """Of the arm's folder."""
        return "mixing-" + re.sub(r"[^\w.]+", "-", label(self.mixing))

    @property
    def newest(self) -> ModelRef | None:
        """Where the next leg continues; None for a cold start."""
        return ModelRef(str(self.folders[-1]), self.manifests[-1]["digest"]) if self.folders else None

    def total(self, what: str) -> float:
        """A count of the manifests' metrics, `trained`, `steps` or `seconds`, over all legs."""
        return sum(manifest["metrics"][what] for manifest in self.manifests)

    def served(self, pairs: "pd.DataFrame") -> "pd.DataFrame":
        """Labelled pairs beside the arm's first prediction of each, given before training on it.

        Args:
            pairs: as `training.judging.due_pairs` has them.

        Returns:
            The pairs that were scored, with a column `prediction`; the same pairs for every arm of a sweep.
        """
        only = [("role", "=", CANDIDATE)]
        parts = [pq.read_table(folder / checkpoint.PREDICTIONS, filters=only) for folder in self.folders]
        return as_served(pairs, exact_frame(pa.concat_tables(parts)))


def walked(plan: Plan, arms: Sequence[Arm], folder: Path, compute: Compute, say: Say) -> list[Arm]:
    """Walk a leg with every arm, each from where it stands.

    Args:
        plan: of the leg; recipe, parent and output are made each arm's own.
        arms: with the legs before.
        folder: where the arms' folders are.
        compute: this process's place.
        say: told about progress, in lines.

    Raises:
        GemlineError: as `training.run.train`.
    """
    found = []
    for number, arm in enumerate(arms, start=1):
        told = _telling(f"{number}/{len(arms)} {label(arm.mixing)}", say)
        own = replace(
            plan,
            recipe=plan.recipe.derive({"mixing": arm.mixing}),
            parent=arm.newest,
            output=str(folder / arm.name / plan.partition),
        )
        made = trained_before(own, compute.world)
        if made:
            told(f"trained before, in {made}")
        else:
            made = train(own, compute, told)
        manifest = checkpoint.manifest_of(made)
        found.append(Arm(arm.mixing, (*arm.folders, made), (*arm.manifests, manifest)))
    return found


def _telling(where: str, say: Say) -> Callable[[str], None]:
    return lambda line: say(f"{where}: {line}")
