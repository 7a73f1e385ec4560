"""Verticals behind the interfaces of `training.learners`."""

from typing import Any

from features.errors import GemlineError
from features.transform.schema import FeatureSchema
from training.compute import Compute
from training.plan import GenerationRef, Plan, TransferPlan
from training.recipes import Recipe
from training.verticals.reader import VerticalReader
from training.verticals.trainee import VerticalTrainee


class VerticalLearner:
    """Makes readers and trainees of verticals."""

    def reader(self, plan: Plan, incumbent: dict[str, Any] | None) -> VerticalReader:
        """What reads for the plan's model, and for an incumbent with this manifest beside it."""
        transfer = _transfer(plan)
        generations = [transfer.generation]
        if incumbent and transfer.incumbent and transfer.incumbent.name != transfer.generation.name:
            generations.append(transfer.incumbent)
        return VerticalReader(plan, [FeatureSchema.from_dict(incumbent["schema"])] if incumbent else [], generations)

    def build(self, plan: Plan, compute: Compute) -> VerticalTrainee:
        """A cold model."""
        if compute.world != 1:
            raise GemlineError(f"a vertical trains in one process, not {compute.world}; start it without torchrun")
        pinned = _transfer(plan).generation
        return VerticalTrainee.cold(plan.schema, plan.recipe, pinned.name, pinned.width, plan.seed)

    def incumbent(self, plan: Plan, manifest: dict[str, Any], compute: Compute) -> VerticalTrainee:
        """A model into which the incumbent of this manifest can be loaded."""
        known: dict[str, GenerationRef] = {
            one.name: one for one in (_transfer(plan).generation, _transfer(plan).incumbent) if one
        }
        if manifest["generation"] not in known:
            raise GemlineError(
                f"the incumbent {manifest['digest'][:12]} reads generation {manifest['generation']}, of which the plan "
                "lists no outputs; plan with its generation, or without an incumbent"
            )
        pinned = known[manifest["generation"]]
        schema, recipe = FeatureSchema.from_dict(manifest["schema"]), Recipe.from_dict(manifest["recipe"])
        return VerticalTrainee.cold(schema, recipe, pinned.name, pinned.width, 0)


def _transfer(plan: Plan) -> TransferPlan:
    assert plan.transfer is not None
    return plan.transfer
