"""One training run, from a plan to a committed checkpoint; the same function with one process or many.

A run reads nothing but its plan and the files that this names. When it is killed it leaves an attempt without
a marker, which nothing loads, and the next run does the walk again from the parent: the result is the same.
"""

import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from features.errors import GemlineError
from features.transform.schema import FeatureSchema
from training import checkpoint, dcp_json
from training.compute import Compute, agreed, barrier, deterministic
from training.continuing import only_surfaces_differ
from training.digest import Identity, sources_hash, tensors_hash
from training.finite import require_finite
from training.learners import Learning, learner_of
from training.plan import Plan
from training.reader import Reader
from training.recalibration import Recalibration
from training.walk import CANDIDATE, Predictions, Say, Walked, walk


@deterministic()
def train(plan: Plan, compute: Compute, say: Say = print) -> Path:
    """Run a plan.

    Args:
        plan: what to walk, from what, to where.
        compute: this process's place; see `training.compute.join`.
        say: told about progress, in lines; only rank 0's should reach a user.

    Returns:
        The committed folder, `<output>/attempt-<token>`, on every process.

    Raises:
        GemlineError: a file, checkpoint or number is not what it must be; nothing is committed then.
    """
    started = time.time()
    token = checkpoint.begin(Path(plan.output)).token if compute.rank == 0 else 0
    attempt = checkpoint.Attempt(Path(plan.output), agreed(token, compute))
    learner = learner_of(plan)
    parent = _parent_manifest(plan)
    incumbent = checkpoint.verified(plan.incumbent) if plan.incumbent else None
    reader = learner.reader(plan, incumbent)
    say(f"read {len(reader.histories.event_us):,} events of {len(reader.histories.user_ids):,} users")
    predictions = Predictions(plan.schema)
    if incumbent and plan.incumbent:
        rival = learner.incumbent(plan, incumbent, compute)
        rival.load(plan.incumbent, _surfaces(incumbent))
        _score_incumbent(rival, plan, incumbent, reader, predictions)
        say(f"incumbent {plan.incumbent.digest[:12]} scored the rows of {plan.partition}")
    trainee, recalibration = learner.build(plan, compute), Recalibration(plan.schema, plan.recipe.recalibrate)
    if plan.parent and parent:
        trainee.load(plan.parent, _surfaces(parent))
        recalibration.load(plan.parent, parent)
    rates = parent["base_rates"] if parent else {}
    walked = walk(trainee, reader, plan.walk, predictions, rates, say, recalibration, plan.recipe.mixing)
    gate = reader.gate(plan.partition)
    for role, given in recalibration.scores(trainee, reader, gate).items():
        predictions.add(plan.partition, role, gate, given, walked.started)
    checkpoint.save(trainee.tensors() | trainee.touches() | recalibration.tensors(), attempt)
    if compute.rank == 0:
        pq.write_table(predictions.table(), attempt.folder / checkpoint.PREDICTIONS)
        manifest = _manifest(plan, walked, recalibration, attempt, compute, parent)
        manifest["metrics"]["seconds"] = round(time.time() - started, 1)
        checkpoint.commit(attempt, manifest)
        say(f"committed {manifest['digest'][:12]} in {time.time() - started:.0f} s at {attempt.folder}")
    barrier(compute)
    return attempt.folder


def trained_before(plan: Plan, processes: int) -> Path | None:
    """The committed folder of a run of this very plan by this very code; training again would give its digest."""
    folder = checkpoint.newest(Path(plan.output))
    if folder is None:
        return None
    manifest = checkpoint.manifest_of(folder)
    same = {
        "plan": plan.fingerprint(),
        "torch": torch.__version__,
        "world_size": processes,
    }
    known = {name: manifest.get(name) for name in same} == same
    return folder if known and manifest["identity"]["sources"] == sources_hash() else None


def _parent_manifest(plan: Plan) -> dict[str, Any] | None:
    """The verified manifest of the model to continue from; refuses one that does not fit.

    Raises:
        GemlineError: other inputs or sizes, or the walk would train twice on a day.
    """
    if plan.parent is None:
        return None
    manifest = checkpoint.verified(plan.parent)
    same = manifest["schema"] == plan.schema.to_dict() or _other_surfaces(plan, manifest)
    if not same or manifest["recipe"]["model"] != plan.recipe.to_dict()["model"]:
        what = "other sizes" if same else "another schema"
        raise GemlineError(
            f"the parent {plan.parent.digest[:12]} was trained with {what}; start cold (no parent), "
            "or train with the parent's"
        )
    if "base_rates" not in manifest:
        raise GemlineError(
            f"the parent {plan.parent.digest[:12]} does not say which base rates its tasks started at: it is of an "
            "earlier version; start cold (no parent)"
        )
    if (generation := _generation(plan)) != manifest["generation"]:
        raise GemlineError(
            f"the parent {plan.parent.digest[:12]} learned from generation {manifest['generation']}, the plan pins "
            f"{generation}, whose vectors mean something else; start cold (no parent)"
        )
    position = manifest["identity"]["position"]
    if plan.walk and plan.walk[0] <= position:
        raise GemlineError(
            f"the parent {plan.parent.digest[:12]} has trained on label days up to {position}, the walk "
            f"starts with {plan.walk[0]}; each pair is trained on once, so start the walk on the day after"
        )
    return manifest


def _other_surfaces(plan: Plan, manifest: dict[str, Any]) -> bool:
    """Whether the parent's schema is the plan's but for surfaces, which GEM continues with."""
    return plan.recipe.kind == "gem" and only_surfaces_differ(FeatureSchema.from_dict(manifest["schema"]), plan.schema)


def _surfaces(manifest: dict[str, Any]) -> tuple[str, ...]:
    return tuple(manifest["schema"]["surfaces"])


def _score_incumbent(
    rival: Learning, plan: Plan, manifest: dict[str, Any], reader: Reader, predictions: Predictions
) -> None:
    """Let the incumbent score the very rows that the candidate will be judged on."""
    rows, places = reader.gate(plan.partition), {name: index for index, name in enumerate(rival.schema.task_names)}
    missing = sorted(set(reader.schema.task_names) - set(places))
    if missing:
        raise GemlineError(
            f"the incumbent {manifest['digest'][:12]} has no tasks {missing}, so it is no comparison; plan without it"
        )
    recalibration = Recalibration.in_force(rival.schema, manifest)
    given = recalibration.scores(rival, reader, rows)[CANDIDATE][:, [places[name] for name in reader.schema.task_names]]
    predictions.add(plan.partition, "incumbent", rows, given, manifest["started"])


def _manifest(
    plan: Plan,
    walked: Walked,
    recalibration: Recalibration,
    attempt: checkpoint.Attempt,
    compute: Compute,
    parent: dict[str, Any] | None,
) -> dict[str, Any]:
    tensors = dcp_json.full_tensors(attempt.tensors)
    require_finite(tensors)
    last = plan.walk[-1] if plan.walk else parent["identity"]["position"] if parent else ""
    identity = Identity(
        tensors=tensors_hash(tensors),
        position=last,
        config={
            "schema": plan.schema.to_dict(),
            "recipe": plan.recipe.to_dict(),
            "seed": plan.seed,
            "world_size": compute.world,
            "device": compute.device.type,
            "generation": _generation(plan),
            "base_rates": walked.rates,
            **recalibration.told(),
        },
        sources=sources_hash(),
        consumed=_consumed(plan, walked, last),
        parent=plan.parent.digest if plan.parent else None,
    )
    return {
        "digest": identity.digest(),
        "world": plan.world,
        "partition": plan.partition,
        "schema": plan.schema.to_dict(),
        "recipe": plan.recipe.to_dict(),
        "consumed": [list(entry) for entry in identity.consumed],
        "parent": None if plan.parent is None else {"path": plan.parent.path, "digest": plan.parent.digest},
        "position": last,
        "started": sorted(walked.started),
        "base_rates": walked.rates,
        **recalibration.told(),
        "generation": _generation(plan),
        "world_size": compute.world,
        "metrics": _metrics(walked, tensors),
        "identity": identity.to_dict(),
        "plan": plan.fingerprint(),
        "torch": torch.__version__,
    }


def _consumed(plan: Plan, walked: Walked, last: str) -> tuple[tuple[str, str, str], ...]:
    """What the weights depend on: examples and labels trained on, and the histories that those could see."""
    found = [("examples", day, plan.examples[day].content_hash) for day in walked.consumed_examples]
    found += [("labels", day, plan.labels[day].content_hash) for day in plan.walk]
    if plan.walk:
        same_day = plan.schema.history.as_of == "request"
        seen = {day: entry for day, entry in plan.user_history.items() if day < last or (same_day and day == last)}
        found += [("user_history", day, entry.content_hash) for day, entry in seen.items()]
    if plan.transfer:
        outputs, vectors = plan.transfer.fm_outputs, plan.transfer.vectors
        found += [("fm_outputs", day, entry.content_hash) for day, entry in outputs.items() if day <= last]
        found += [
            ("solaris_train_vectors", day, vectors[day].content_hash)
            for day in walked.consumed_examples
            if day in vectors
        ]
    return tuple(sorted(found))


def _generation(plan: Plan) -> str | None:
    return plan.transfer.generation.name if plan.transfer else None


def _metrics(walked: Walked, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    touched = {
        name.removeprefix("touches."): int((tensor > 0).sum())
        for name, tensor in tensors.items()
        if name.startswith("touches.")
    }
    return {
        "days": walked.days,
        "scored": sum(day["scored"] for day in walked.days.values()),
        "trained": sum(day["trained"] for day in walked.days.values()),
        "steps": sum(day["steps"] for day in walked.days.values()),
        "touched_rows": touched,
    }
