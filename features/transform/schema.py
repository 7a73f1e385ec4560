"""Which inputs a model takes: the feature schema, frozen, checked and written into every manifest as JSON.

It is built from a World once and travels with the model, so that training, evaluation and serving cannot
disagree about a name, a table size or an order. Nothing here knows a data set.
"""

import json
from collections.abc import Container
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from features.errors import GemlineError
from features.transform.funnel import parent_on, require_no_ring

DenseKind = Literal["count", "value", "ratio", "age"]
Side = Literal["request", "candidate"]
AsOf = Literal["day_start", "request"]


class SchemaError(GemlineError):
    """A feature schema contradicts itself, or its JSON does not describe one."""


@dataclass(frozen=True)
class Categorical:
    """An id feature and the embedding table that it looks up.

    `side` is `request` for what all candidates of one request share (user attributes, hour): only those may
    reach the user's encoded history, which is computed once per request. `multi`: any number of ids, see
    `features.transform.bags`.
    """

    name: str
    table: str
    side: Side = "candidate"
    multi: bool = False


@dataclass(frozen=True)
class Content:
    """A vector that another model made, see `features.transform.content`."""

    name: str
    width: int
    side: Side = "candidate"


@dataclass(frozen=True)
class Dense:
    """A number; `kind` chooses its transform (see `features.transform.dense`)."""

    name: str
    kind: DenseKind


@dataclass(frozen=True)
class HistoryField:
    """A column of the behaviour sequence; `candidate` names the categorical feature of the same id space."""

    name: str
    table: str
    candidate: str | None = None


@dataclass(frozen=True)
class History:
    """The behaviour sequence: its fields, how many last events are read, and as of when.

    `as_of`: `day_start` sees what had arrived before the request's day; `request` also what happened on the day itself
    before the request, which the request has to carry when it is scored.
    """

    fields: tuple[HistoryField, ...] = ()
    length: int = 200
    as_of: AsOf = "day_start"


@dataclass(frozen=True)
class TaskSpec:
    """Something to predict; `surfaces` empty means everywhere.

    Where `parent` exists, it is predicted given that the parent's label is 1 (`FeatureSchema.parent_on`).
    """

    name: str
    primary: bool = False
    parent: str | None = None
    surfaces: tuple[str, ...] = ()


@dataclass(frozen=True)
class FeatureSchema:
    """All inputs and outputs of a model, in the order in which tensors hold them.

    Raises:
        SchemaError: on construction, when names repeat or refer to nothing.
    """

    categorical: tuple[Categorical, ...]
    dense: tuple[Dense, ...]
    history: History
    tables: dict[str, int]
    surfaces: tuple[str, ...]
    event_types: tuple[str, ...]
    tasks: tuple[TaskSpec, ...]
    content: tuple[Content, ...] = ()

    def __post_init__(self) -> None:
        """Check every reference once, so that no later code has to."""
        self._check_unique()
        self._check_tables()
        self._check_tasks()
        if self.history.length < 1 or self.history.as_of not in get_args(AsOf):
            raise SchemaError(
                f"history: length must be at least 1 and as_of one of {get_args(AsOf)}; correct the world file"
            )
        for feature in self.dense:
            if feature.kind not in get_args(DenseKind):
                raise SchemaError(
                    f"dense feature {feature.name}: kind '{feature.kind}' is none of {get_args(DenseKind)}"
                )
        for entry in self.content:
            if entry.width < 1:
                raise SchemaError(f"embedding {entry.name}: width {entry.width}; it needs at least 1")

    def _check_unique(self) -> None:
        groups = {
            "categorical": [feature.name for feature in self.categorical],
            "dense": [feature.name for feature in self.dense],
            "content": [entry.name for entry in self.content],
            "history.fields": [field.name for field in self.history.fields],
            "surfaces": list(self.surfaces),
            "event_types": list(self.event_types),
            "tasks": [task.name for task in self.tasks],
        }
        for group, names in groups.items():
            repeated = sorted({name for name in names if names.count(name) > 1})
            if repeated:
                raise SchemaError(f"{group}: {repeated} named more than once; keep one of each")
        for group in ("surfaces", "tasks"):
            if not groups[group]:
                raise SchemaError(f"{group}: name at least one")

    def _check_tables(self) -> None:
        names = {feature.name for feature in self.categorical}
        inputs: tuple[Categorical | HistoryField, ...] = (*self.categorical, *self.history.fields)
        for feature in inputs:
            if feature.table not in self.tables:
                raise SchemaError(
                    f"feature {feature.name}: table '{feature.table}' is not in tables {sorted(self.tables)}"
                )
        for table, rows in self.tables.items():
            if rows < 2:
                raise SchemaError(f"table {table}: {rows} rows; it needs at least 2 (row 0 means missing)")
        for field in self.history.fields:
            if field.candidate is None:
                continue
            if field.candidate not in names:
                raise SchemaError(
                    f"history field {field.name}: candidate '{field.candidate}' is no categorical feature"
                )
            if self.categorical_of(field.candidate).multi:
                raise SchemaError(f"history field {field.name}: candidate '{field.candidate}' is multi-valued")
            if self.categorical_of(field.candidate).table != field.table:
                raise SchemaError(
                    f"history field {field.name}: its candidate '{field.candidate}' uses another table; "
                    "ids can only be matched inside one table"
                )

    def _check_tasks(self) -> None:
        names = {task.name for task in self.tasks}
        for task in self.tasks:
            if task.parent is not None and task.parent not in names - {task.name}:
                raise SchemaError(f"task {task.name}: parent '{task.parent}' is no other task")
            if set(task.surfaces) - set(self.surfaces):
                raise SchemaError(
                    f"task {task.name}: surfaces {sorted(set(task.surfaces) - set(self.surfaces))} unknown"
                )
        try:
            require_no_ring(self.tasks)
        except ValueError as error:
            raise SchemaError(str(error)) from None

    def categorical_of(self, name: str) -> Categorical:
        """The categorical feature of that name.

        Raises:
            SchemaError: when there is none.
        """
        for feature in self.categorical:
            if feature.name == name:
                return feature
        raise SchemaError(f"no categorical feature '{name}'; known: {[feature.name for feature in self.categorical]}")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Columns of `examples` that are inputs of a model."""
        names = [entry.name for entry in self.categorical] + [entry.name for entry in self.dense]
        return (*names, *(entry.name for entry in self.content))

    @property
    def dense_width(self) -> int:
        """Columns of `Batch.dense`: a value and a missing indicator for each dense feature."""
        return 2 * len(self.dense)

    @property
    def task_names(self) -> tuple[str, ...]:
        """Task names in the order of the logits' columns."""
        return tuple(task.name for task in self.tasks)

    @property
    def judged_tasks(self) -> tuple[str, ...]:
        """Tasks that decide about a model: the primary ones, or all where a part of the world has none."""
        return tuple(task.name for task in self.tasks if task.primary) or self.task_names

    def part(self, surfaces: tuple[str, ...], tasks: tuple[str, ...]) -> "FeatureSchema":
        """The same inputs for some surfaces and tasks; a parent task outside of the part is forgotten.

        A parent that exists on none of these surfaces is replaced by its own.

        Raises:
            SchemaError: a surface or task that this schema does not have.
        """
        if unknown := sorted({*surfaces, *tasks} - {*self.surfaces, *self.task_names}):
            raise SchemaError(f"the schema has no surface or task {unknown}")
        kept = []
        for task in self.tasks:
            where = tuple(name for name in task.surfaces if name in surfaces)
            if task.name in tasks and (where or not task.surfaces):
                parent = self._parent_in(task, surfaces)
                kept.append(replace(task, surfaces=where, parent=parent if parent in tasks else None))
        return replace(self, surfaces=surfaces, tasks=tuple(kept))

    def _parent_in(self, task: TaskSpec, surfaces: tuple[str, ...]) -> str | None:
        """The nearest ancestor that exists on any of the surfaces."""
        known, parent = {entry.name: entry for entry in self.tasks}, task.parent
        while parent is not None and known[parent].surfaces and not set(known[parent].surfaces) & set(surfaces):
            parent = known[parent].parent
        return parent

    def parent_on(self, task: str, surface: str) -> str | None:
        """The task whose label has to be 1 for `task` to exist on a surface; None where it is direct."""
        return parent_on(self.tasks, task, surface)

    def without(self, columns: Container[str]) -> "FeatureSchema":
        """The same without some categorical features; none of them may be a history field's candidate."""
        kept = tuple(feature for feature in self.categorical if feature.name not in columns)
        return replace(self, categorical=kept)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `from_dict` reads them back."""
        return json.loads(json.dumps(asdict(self)))

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, so equal schemas give equal text."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "FeatureSchema":
        """Rebuild a schema from `to_dict`.

        Raises:
            SchemaError: on unknown or missing keys, or a schema that contradicts itself.
        """
        try:
            history = data["history"]
            return cls(
                categorical=tuple(Categorical(**entry) for entry in data["categorical"]),
                dense=tuple(Dense(**entry) for entry in data["dense"]),
                history=History(**{**history, "fields": tuple(HistoryField(**entry) for entry in history["fields"])}),
                tables={name: int(rows) for name, rows in data["tables"].items()},
                surfaces=tuple(data["surfaces"]),
                event_types=tuple(data["event_types"]),
                tasks=tuple(TaskSpec(**{**entry, "surfaces": tuple(entry["surfaces"])}) for entry in data["tasks"]),
                content=tuple(Content(**entry) for entry in data.get("content", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SchemaError(f"this JSON is no feature schema: {error!r}; rebuild it from the world") from error

    @classmethod
    def from_json(cls, text: str) -> "FeatureSchema":
        """Rebuild a schema from `to_json`.

        Raises:
            SchemaError: when the text is not JSON or not a schema.
        """
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise SchemaError(f"the feature schema is not valid JSON: {error}") from error
        return cls.from_dict(data)
