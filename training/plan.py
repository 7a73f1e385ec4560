"""The trainer's plan: one JSON file that names everything a run may read, so a run is a function of its plan.

Orchestration writes it (it knows tables, ledgers and decisions); `python -m training.main PLAN.json` reads
it. The trainer has no Spark and asks no ledger: the files of a pinned table version are all that it sees.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from datetime import date
from pathlib import Path
from typing import Any

from features.errors import GemlineError
from features.transform.schema import FeatureSchema
from training.recipes import Recipe

TABLES = ("examples", "labels", "user_history")


class PlanError(GemlineError):
    """A plan contradicts itself or its JSON does not describe one."""


@dataclass(frozen=True)
class DayFiles:
    """The Parquet files of one day of a table in the pinned version; none for a closed day."""

    content_hash: str
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelRef:
    """A committed checkpoint folder and the digest that it must have."""

    path: str
    digest: str


@dataclass(frozen=True)
class GenerationRef:
    """A frozen foundation model, as far as its students need to know it.

    Attributes:
        name: its id, which every row that came of it carries.
        last_label_day: newest label that it was trained on; it teaches examples of later days only.
        tasks: task names in the order of its logits.
        width: numbers of a vector.
    """

    name: str
    last_label_day: str
    tasks: tuple[str, ...]
    width: int


@dataclass(frozen=True, kw_only=True)
class TransferPlan:
    """What a vertical gets from the foundation model.

    Attributes:
        generation: the pinned one.
        memory_length: newest remembered vectors that are read.
        fm_outputs: files by `ds`: teacher's logits, and memories of all days before the partition.
        vectors: files of `solaris_train_vectors` by `ds`.
        incumbent: generation of the incumbent, when there is one; its rows are in the same files.
    """

    generation: GenerationRef
    memory_length: int
    fm_outputs: dict[str, DayFiles] = field(default_factory=dict)
    vectors: dict[str, DayFiles] = field(default_factory=dict)
    incumbent: GenerationRef | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form that `from_dict` reads back."""
        return {
            "generation": asdict(self.generation),
            "memory_length": self.memory_length,
            "fm_outputs": _files_to_dict(self.fm_outputs),
            "vectors": _files_to_dict(self.vectors),
            "incumbent": None if self.incumbent is None else asdict(self.incumbent),
        }

    @classmethod
    def from_dict(cls, data: Any) -> "TransferPlan":
        """Rebuild.

        Raises:
            PlanError: on a missing or unknown key.
        """
        known = {entry.name for entry in fields(cls)}
        _require_keys("transfer", data, known, required=known)
        return cls(
            generation=_generation(data["generation"]),
            memory_length=int(data["memory_length"]),
            fm_outputs=_files_from_dict("fm_outputs", data["fm_outputs"]),
            vectors=_files_from_dict("vectors", data["vectors"]),
            incumbent=None if data["incumbent"] is None else _generation(data["incumbent"]),
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to walk, from what, to where.

    Attributes:
        world: name of the world.
        partition: P, the day that the model is for; it is scored and never trained on.
        schema: inputs and outputs.
        recipe: sizes and settings.
        seed: of initial weights and row order.
        walk: label days in the order in which they are scored and trained on; all before `partition`.
        examples: files by `ds`; each walked day, P, and every earlier day that a label refers to.
        labels: files by `label_ds`; each walked day and P.
        user_history: files by `ds`; everything that a history may reach back to.
        parent: model to continue from; None for a cold start.
        incumbent: model that scores the gate's rows beside the candidate; None before the first release.
        transfer: what a vertical gets from the foundation model; None for GEM itself.
        output: folder of this model and day; each run writes to `attempt-<token>` in it.

    Raises:
        PlanError: on construction, when a day is missing, unordered, or would leak.
    """

    world: str
    partition: str
    schema: FeatureSchema
    recipe: Recipe
    walk: tuple[str, ...]
    output: str
    seed: int = 0
    examples: dict[str, DayFiles] = field(default_factory=dict)
    labels: dict[str, DayFiles] = field(default_factory=dict)
    user_history: dict[str, DayFiles] = field(default_factory=dict)
    parent: ModelRef | None = None
    incumbent: ModelRef | None = None
    transfer: TransferPlan | None = None

    def __post_init__(self) -> None:
        """Refuse a plan that would train on what it is judged on, or that lacks a day's files."""
        for day in (self.partition, *self.walk, *self.examples, *self.labels, *self.user_history):
            _require_day(day)
        if list(self.walk) != sorted(set(self.walk)):
            raise PlanError(f"plan for {self.partition}: walk must name each day once, in order; got {list(self.walk)}")
        if self.walk and self.walk[-1] >= self.partition:
            raise PlanError(
                f"plan for {self.partition}: the walk reaches {self.walk[-1]}, so the model would train on "
                "what it is judged on; end the walk on the day before"
            )
        if (self.recipe.kind == "vertical") != (self.transfer is not None):
            raise PlanError(
                f"plan for {self.partition}: a recipe of kind '{self.recipe.kind}' "
                f"{'needs' if self.transfer is None else 'takes no'} transfer"
            )
        if not self.walk and self.parent is None:
            raise PlanError(f"plan for {self.partition}: nothing to walk and no parent; a cold start needs walk days")
        self._require_files("examples", self.examples)
        self._require_files("labels", self.labels)

    def _require_files(self, table: str, files: dict[str, DayFiles]) -> None:
        missing = sorted({*self.walk, self.partition} - set(files))
        if missing:
            raise PlanError(
                f"plan for {self.partition}: no '{table}' files for {', '.join(missing)}; publish those days "
                "first (a closed day is listed with no paths)"
            )

    def files(self, table: str) -> dict[str, DayFiles]:
        """Files by day of one of `TABLES`."""
        return {"examples": self.examples, "labels": self.labels, "user_history": self.user_history}[table]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form that `from_dict` reads back."""
        return {
            "world": self.world,
            "partition": self.partition,
            "schema": self.schema.to_dict(),
            "recipe": self.recipe.to_dict(),
            "seed": self.seed,
            "walk": list(self.walk),
            "score": [self.partition],
            "files": {table: _files_to_dict(self.files(table)) for table in TABLES},
            "transfer": None if self.transfer is None else self.transfer.to_dict(),
            "parent": _ref_to_dict(self.parent),
            "incumbent": _ref_to_dict(self.incumbent),
            "output": self.output,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Plan":
        """Rebuild a plan.

        Raises:
            PlanError: on a missing or unknown key, a wrong type, or a plan that contradicts itself.
        """
        known = {
            "world",
            "partition",
            "schema",
            "recipe",
            "seed",
            "walk",
            "score",
            "files",
            "parent",
            "incumbent",
            "transfer",
            "output",
        }
        _require_keys("the plan", data, known, required=known - {"seed", "parent", "incumbent", "transfer"})
        _require_keys("files", data["files"], set(TABLES), required=set(TABLES))
        if data["score"] != [data["partition"]]:
            raise PlanError(f"score must be [{data['partition']!r}], the partition alone; got {data['score']}")
        return cls(
            world=data["world"],
            partition=data["partition"],
            schema=FeatureSchema.from_dict(data["schema"]),
            recipe=Recipe.from_dict(data["recipe"]),
            seed=int(data.get("seed", 0)),
            walk=tuple(data["walk"]),
            parent=_ref_from_dict("parent", data.get("parent")),
            incumbent=_ref_from_dict("incumbent", data.get("incumbent")),
            transfer=None if data.get("transfer") is None else TransferPlan.from_dict(data["transfer"]),
            output=data["output"],
            **{table: _files_from_dict(table, data["files"][table]) for table in TABLES},
        )

    def fingerprint(self) -> str:
        """Sha256 of the plan's canonical JSON: a run is a function of its plan, so equal ones give equal models."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def write(self, path: Path) -> Path:
        """Write the plan as JSON; returns the path for a command line."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.to_dict(), indent=1))
        return path

    @classmethod
    def read(cls, path: Path) -> "Plan":
        """Read a plan.

        Raises:
            PlanError: the file is missing, not JSON, or not a plan.
        """
        try:
            data = json.loads(path.read_text())
        except FileNotFoundError:
            raise PlanError(f"no plan at {path}; write one with Plan.write") from None
        except json.JSONDecodeError as error:
            raise PlanError(f"the plan {path} is not valid JSON: {error}") from error
        return cls.from_dict(data)


def _require_day(day: Any) -> None:
    try:
        valid = date.fromisoformat(day).isoformat() == day
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise PlanError(f"the plan names the day {day!r}; write days as YYYY-MM-DD")


def _require_keys(where: str, data: Any, known: set[str], required: Iterable[str]) -> None:
    if not isinstance(data, dict):
        raise PlanError(f"{where} must be a JSON object, not {type(data).__name__}")
    missing, unknown = sorted(set(required) - set(data)), sorted(set(data) - known)
    if missing or unknown:
        raise PlanError(f"{where}: missing keys {missing}, unknown keys {unknown}; known: {sorted(known)}")


def _files_from_dict(table: str, data: Any) -> dict[str, DayFiles]:
    if not isinstance(data, dict):
        raise PlanError(f"files.{table} must map days to files, not be a {type(data).__name__}")
    for day, entry in data.items():
        _require_keys(f"files.{table}.{day}", entry, {"hash", "paths"}, required=("hash", "paths"))
    return {day: DayFiles(entry["hash"], tuple(entry["paths"])) for day, entry in data.items()}


def _files_to_dict(files: dict[str, DayFiles]) -> dict[str, Any]:
    return {day: {"hash": entry.content_hash, "paths": list(entry.paths)} for day, entry in sorted(files.items())}


def _generation(data: Any) -> GenerationRef:
    known = {entry.name for entry in fields(GenerationRef)}
    _require_keys("generation", data, known, required=known)
    return GenerationRef(**{**data, "tasks": tuple(data["tasks"])})


def _ref_to_dict(ref: ModelRef | None) -> dict[str, str] | None:
    return None if ref is None else {"path": ref.path, "digest": ref.digest}


def _ref_from_dict(name: str, data: Any) -> ModelRef | None:
    if data is None:
        return None
    _require_keys(name, data, {"path", "digest"}, required=("path", "digest"))
    return ModelRef(data["path"], data["digest"])
