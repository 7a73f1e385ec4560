"""Which kind of model a plan trains: what reads for it and what learns, behind one pair of interfaces."""

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor

from features.transform.schema import FeatureSchema
from training.compute import Compute
from training.continuing import with_surfaces_of
from training.plan import ModelRef, Plan
from training.reader import Reader
from training.recipes import Recipe
from training.walk import Trainee


class Learning(Trainee, Protocol):
    """A trainee that can be saved and restored."""

    def tensors(self) -> dict[str, Any]:
        """Weights and optimizer state by canonical name, plain or sharded."""

    def touches(self) -> dict[str, Tensor]:
        """Touch counters added up over ranks, by canonical name."""

    def load(self, ref: ModelRef, surfaces: Sequence[str] = ()) -> None:
        """Become the model of a checkpoint that has been verified and was trained with these surfaces."""


class Learner(Protocol):
    """Makes readers and trainees of one kind of model."""

    def reader(self, plan: Plan, incumbent: dict[str, Any] | None) -> Reader:
        """What reads for the plan's model, and for an incumbent with this manifest beside it."""

    def build(self, plan: Plan, compute: Compute) -> Learning:
        """A cold model."""

    def incumbent(self, plan: Plan, manifest: dict[str, Any], compute: Compute) -> Learning:
        """A model into which the incumbent of this manifest can be loaded."""


class GemLearner:
    """The foundation model."""

    def reader(self, plan: Plan, incumbent: dict[str, Any] | None) -> Reader:
        """See `Learner`."""
        return Reader(plan, [FeatureSchema.from_dict(incumbent["schema"])] if incumbent else [])

    def build(self, plan: Plan, compute: Compute) -> Learning:
        """See `Learner`."""
        from training.loop import build

        return build(plan.schema, plan.recipe, plan.seed, compute)

    def incumbent(self, plan: Plan, manifest: dict[str, Any], compute: Compute) -> Learning:
        """See `Learner`; surfaces that the incumbent does not know it answers as new ones."""
        from training.loop import build

        schema = with_surfaces_of(FeatureSchema.from_dict(manifest["schema"]), plan.schema)
        return build(schema, Recipe.from_dict(manifest["recipe"]), 0, compute)


def learner_of(plan: Plan) -> Learner:
    """By the recipe's kind; only what is needed is imported, since TorchRec takes seconds."""
    if plan.recipe.kind == "gem":
        return GemLearner()
    from training.verticals.learner import VerticalLearner

    return VerticalLearner()
