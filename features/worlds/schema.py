"""What a world file may say: the pydantic schema behind the YAML, with one sentence for each field.

Code elsewhere never names a column of a data set; it reads these declarations. Only a source adapter
(`features/sources`) knows its own raw files.
"""

from datetime import timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from features.days import day_range
from features.errors import GemlineError
from features.transform.funnel import parent_on, require_no_ring
from features.worlds.windows import heads_of, require_names, require_windows

Day = str
DAY_PATTERN = r"^\d{4}-\d{2}-\d{2}$"
NAME_PATTERN = r"^[a-z][a-z0-9_]*$"
GEM = "gem"
"""Name of the foundation model's line, beside the verticals' own."""
GRACE = timedelta(hours=2)
"""Added to a statistics row's life: a local day can last 25 hours."""
IMPRESSION_TEXTS = ("objective", "format")
"""Text columns of impressions that may be features; an attribute of that name takes precedence."""


class Strict(BaseModel):
    """Base of all sections: an unknown key is an error, so a typo never passes in silence."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(Strict):
    """Where raw rows come from."""

    adapter: str = Field(description="name of a module in features/sources: `files` reads logs by mapping alone")
    options: dict[str, Any] = Field(default_factory=dict, description="read and checked by the adapter itself")


class Surface(Strict):
    """A place where ads are shown."""

    name: str = Field(pattern=NAME_PATTERN)
    keep_rate: float = Field(default=1.0, gt=0, le=1, description="share of primary negatives that is kept (w)")
    description: str = ""


class Task(Strict):
    """Something to predict of an impression."""

    name: str = Field(pattern=NAME_PATTERN)
    event: str = Field(description="event type in `outcomes` that makes the label 1")
    match: tuple[Literal["request_id", "user_id", "ad_id"], ...] = Field(
        description="columns that an outcome shares with its impression"
    )
    window: timedelta | None = Field(default=None, description="how long after request_ts an outcome counts (ISO 8601)")
    shorter: tuple[timedelta, ...] = Field(
        default=(), description="further windows of the same event, increasing: each an auxiliary head of GEM's"
    )
    window_column: Literal["window_end"] | None = Field(
        default=None, description="instead of `window`: the impression's column that holds the window's end, exclusive"
    )
    from_request: bool = Field(
        default=False, description="outcomes stamped at request_ts itself count (they belong to the request)"
    )
    credit: Literal["last", "first", "all"] = Field(
        default="all", description="which of several matching impressions gets one outcome"
    )
    lag: timedelta = Field(default=timedelta(0), description="outcomes arrive at most this late")
    surfaces: tuple[str, ...] = Field(default=(), description="where the task exists; empty: everywhere")
    parent: str | None = Field(
        default=None, description="exists only where this task's label is 1; direct on surfaces without it"
    )
    primary: bool = Field(default=False, description="decides sampling and vetoes releases")

    @model_validator(mode="after")
    def _one_window(self) -> "Task":
        if (self.window is None) == (self.window_column is None):
            raise ValueError(f"task {self.name}: give exactly one of `window` and `window_column`")
        require_windows(self)
        return self


class Entity(Strict):
    """Users or ads: their attributes and the statistics kept of them."""

    attributes: tuple[str, ...] = Field(
        default=(), description="columns of the users or ads table: ids, arrays of ids (`multi`) or content embeddings"
    )
    description: str = ""
    descriptions: dict[str, str] = Field(default_factory=dict, description="of attributes, for whoever reads features")

    @model_validator(mode="after")
    def _describes_what_there_is(self) -> "Entity":
        if unknown := sorted(set(self.descriptions) - set(self.attributes)):
            raise ValueError(f"descriptions: {unknown} are no attributes; known: {sorted(self.attributes)}")
        return self


class Statistics(Strict):
    """Rolling counts over a user's or an ad's events up to the end of a day."""

    windows: tuple[int, ...] = Field(default=(7, 28, 84), description="days")
    lag: timedelta = Field(default=timedelta(0), description="available this long after the day's end")


class HistoryField(Strict):
    """A column of the user's behaviour sequence."""

    name: str = Field(pattern=NAME_PATTERN, description="column of `events`")
    table: str = Field(description="embedding table it shares")
    candidate: str | None = Field(default=None, description="categorical feature that lives in the same id space")


class HistorySpec(Strict):
    """The user's behaviour sequence."""

    fields: tuple[HistoryField, ...] = Field(description="`ad_id` first")
    as_of: Literal["day_start", "request"] = Field(
        default="day_start",
        description="`request`: also events of the request's own day, which every scoring request then has to carry",
    )
    recent_length: int = Field(default=50, ge=1, description="events of the short history in the feature store")

    @model_validator(mode="after")
    def _ad_first(self) -> "HistorySpec":
        if self.fields[0].name != "ad_id":
            raise ValueError("history.fields: the first field must be ad_id")
        return self


class CategoricalFeature(Strict):
    """A categorical input.

    A column of impressions (`objective`, `format`, `context_...`), an attribute of users or ads, or derived (`hour`,
    `weekday`).
    """

    name: str = Field(pattern=NAME_PATTERN)
    table: str
    multi: bool = Field(default=False, description="an attribute that holds any number of ids; their mean is the input")
    most: int = Field(default=32, ge=1, description="distinct values kept of one row, the first ones of the log")


class ContentEmbedding(Strict):
    """A fixed input: an attribute of users or ads that holds a vector made elsewhere, of a text or an image."""

    name: str = Field(pattern=NAME_PATTERN)
    width: int = Field(ge=1, le=4096, description="numbers of the vector; rows of another width are refused")


class Vertical(Strict):
    """A small model's home: one surface (or several) and its tasks."""

    name: str = Field(pattern=NAME_PATTERN)
    surfaces: tuple[str, ...] = Field(min_length=1)
    tasks: tuple[str, ...] = Field(min_length=1)
    recipe: str = Field(default="vertical_demo", description="function of training/verticals/recipes.py")
    exclude: tuple[str, ...] = Field(default=(), description="categorical features that only the large model gets")


class Transfer(Strict):
    """How the foundation model's knowledge reaches the verticals."""

    width: int = Field(default=16, ge=1, description="numbers of a compressed representation")
    memory_length: int = Field(default=50, ge=1, description="newest representations of a user that a vertical reads")
    warm_up: int = Field(default=28, ge=1, description="days of fm_outputs before verticals switch to a generation")


class Precompute(Strict):
    """Solaris: which (surface, user, ad) are computed before they are asked for, and for how long they hold."""

    ads_per_user: int = Field(default=20, ge=1, description="candidates of each active user on each surface")
    active_days: int = Field(default=28, ge=1, description="a user with an event in these days is active")
    life: timedelta = Field(default=timedelta(hours=48), gt=timedelta(0), description="a vector expires after this")


class Demo(Strict):
    """Days of `make demo`; all but the first come after `frozen`."""

    tables_until: Day = Field(pattern=DAY_PATTERN, description="tables of all days up to it are one range run")
    frozen: Day = Field(pattern=DAY_PATTERN, description="GEM starts cold here and becomes the first generation")
    models: Day = Field(pattern=DAY_PATTERN, description="first day of the verticals, on tables of the range run")
    next: Day = Field(pattern=DAY_PATTERN, description="a whole day, from raw log to released packages")


class World(Strict):
    """One log, its meaning and its time."""

    name: str = Field(pattern=NAME_PATTERN)
    title: str
    description: str
    synthetic: bool = Field(default=False, description="shown wherever a number of this world is shown")
    owner: str = Field(default="gemline", min_length=1, description="who answers for its features: a team, an address")
    clock: Literal["real", "replay"]
    timezone: str
    first_day: Day = Field(pattern=DAY_PATTERN)
    last_day: Day | None = Field(default=None, pattern=DAY_PATTERN, description="replay worlds: the log's last day")
    closed_days: tuple[Day, ...] = Field(default=(), description="days with zero impressions on purpose")
    source: Source
    surfaces: tuple[Surface, ...]
    context: tuple[str, ...] = Field(default=(), description="columns `context_...` of impressions")
    context_text: tuple[str, ...] = Field(
        default=(), description="those of `context` whose source hashes all text, also what reads as a number"
    )
    event_types: tuple[str, ...]
    users: Entity = Entity()
    ads: Entity = Entity()
    tasks: tuple[Task, ...]
    statistics: Statistics = Statistics()
    history: HistorySpec
    categorical: tuple[CategoricalFeature, ...]
    embeddings: tuple[ContentEmbedding, ...] = ()
    tables: dict[str, int] = Field(description="rows of each embedding table")
    verticals: tuple[Vertical, ...] = ()
    transfer: Transfer = Transfer()
    precompute: Precompute = Precompute()
    demo: Demo | None = Field(default=None, description="days of `make demo`")
    recipe: str = "gem_demo"
    look_back: int = Field(default=60, ge=1, description="days that a cold start walks")
    min_positives: int = Field(default=100, ge=1, description="fewer in a slice: insufficient evidence")

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError):
            raise ValueError(f"'{value}' is no IANA time zone (for example Europe/Berlin)") from None
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "World":
        self._check_tasks()
        self._check_features()
        if self.clock == "replay" and self.last_day is None:
            raise ValueError("a replay world needs last_day")
        return self

    def _check_tasks(self) -> None:
        surfaces = set(self.surface_names)
        tasks = {task.name for task in self.tasks}
        if not any(task.primary for task in self.tasks):
            raise ValueError("tasks: mark at least one as primary")
        for task in self.tasks:
            unknown = set(task.surfaces) - surfaces
            if unknown:
                raise ValueError(f"task {task.name}: unknown surfaces {sorted(unknown)}; known: {sorted(surfaces)}")
            if task.parent is not None and task.parent not in tasks:
                raise ValueError(f"task {task.name}: parent '{task.parent}' is no task")
            if task.event not in self.event_types:
                raise ValueError(f"task {task.name}: event '{task.event}' is not in event_types")
            self._check_sampling(task)
        require_names(self.tasks)
        require_no_ring(self.tasks)
        names = [vertical.name for vertical in self.verticals]
        if len(set(names)) < len(names) or GEM in names:
            raise ValueError("verticals: each needs a name of its own, and `gem` is taken")
        for vertical in self.verticals:
            if set(vertical.surfaces) - surfaces or set(vertical.tasks) - tasks:
                raise ValueError(f"vertical {vertical.name}: unknown surface or task")
            self._check_path(vertical)
            self._check_exclusion(vertical)

    def _check_sampling(self, task: Task) -> None:
        """When a short window closes, nobody knows yet which rows the long one's positives keep in the sample."""
        sampled = [name for name in task.surfaces or self.surface_names if self.keep_rate(name) < 1]
        if task.primary and task.shorter and sampled:
            raise ValueError(
                f"task {task.name}: it decides which rows of {sampled} are kept, which its `shorter` windows cannot "
                "know; give these surfaces keep_rate 1, or make a shorter task primary"
            )

    def _check_path(self, vertical: Vertical) -> None:
        """What is served is the product along a task's ancestors, so a vertical predicts these, too."""
        for task in [task for task in self.tasks if task.name in vertical.tasks]:
            own = [surface for surface in vertical.surfaces if not task.surfaces or surface in task.surfaces]
            if above := {self.parent_on(task.name, surface) for surface in own} - {None, *vertical.tasks}:
                raise ValueError(
                    f"vertical {vertical.name}: task {task.name} follows {sorted(map(str, above))}; list that "
                    "task, too, since its probability is a factor of what is served"
                )

    def _check_exclusion(self, vertical: Vertical) -> None:
        names = {feature.name for feature in self.categorical}
        if unknown := sorted(set(vertical.exclude) - names):
            raise ValueError(f"vertical {vertical.name}: exclude {unknown} are no categorical features")
        matched = {field.candidate for field in self.history.fields}
        if needed := sorted(set(vertical.exclude) & matched):
            raise ValueError(f"vertical {vertical.name}: exclude {needed} are candidates of history fields")

    def _check_features(self) -> None:
        names = [feature.name for feature in self.categorical]
        used = {feature.name: feature.table for feature in self.categorical}
        used |= {field.name: field.table for field in self.history.fields}
        for name, table in used.items():
            if table not in self.tables:
                raise ValueError(f"feature {name}: embedding table '{table}' is not in `tables`")
        for field in self.history.fields:
            if field.candidate is not None and field.candidate not in names:
                raise ValueError(f"history field {field.name}: candidate '{field.candidate}' is no categorical feature")
        if undeclared := sorted(set(self.context_text) - set(self.context)):
            raise ValueError(f"context_text: {undeclared} not in `context`")
        attributes = {*self.users.attributes, *self.ads.attributes}
        known = {"user_id", "ad_id", "surface", "hour", "weekday", *IMPRESSION_TEXTS, *attributes}
        known |= {f"context_{name}" for name in self.context}
        unknown = set(names) - known
        if unknown:
            raise ValueError(f"categorical: unknown columns {sorted(unknown)}; known: {sorted(known)}")
        self._check_attributes()

    def _check_attributes(self) -> None:
        if twice := sorted(set(self.users.attributes) & set(self.ads.attributes)):
            raise ValueError(f"attributes {twice} belong to users and ads; give them names of their own")
        attributes = {*self.users.attributes, *self.ads.attributes}
        if unclear := sorted(set(self.context) & set(self.impression_texts)):
            raise ValueError(f"context: {unclear} are features of their own; a request could not tell them apart")
        many, vectors = set(self.bags), set(self.vectors)
        for what, names in (("categorical: multi-valued", many), ("embeddings:", vectors)):
            if unknown := sorted(names - attributes):
                raise ValueError(f"{what} {unknown} must be attributes of users or ads; known: {sorted(attributes)}")
        if both := sorted(vectors & {feature.name for feature in self.categorical}):
            raise ValueError(f"embeddings: {both} are categorical features too; an attribute is one of them")
        for field in self.history.fields:
            if field.candidate in many:
                raise ValueError(f"history field {field.name}: candidate '{field.candidate}' is multi-valued")

    @property
    def bags(self) -> dict[str, int]:
        """Multi-valued attributes and the number of values kept of each."""
        return {feature.name: feature.most for feature in self.categorical if feature.multi}

    @property
    def vectors(self) -> dict[str, int]:
        """Content embeddings and their widths."""
        return {entry.name: entry.width for entry in self.embeddings}

    @property
    def impression_texts(self) -> tuple[str, ...]:
        """Text columns of impressions that are features: a request says them, as it says its context."""
        attributes = {*self.users.attributes, *self.ads.attributes}
        features = {feature.name for feature in self.categorical}
        return tuple(name for name in IMPRESSION_TEXTS if name in features - attributes)

    @property
    def surface_names(self) -> tuple[str, ...]:
        """Surfaces in file order: the order of the model's surface index."""
        return tuple(surface.name for surface in self.surfaces)

    @property
    def primary_tasks(self) -> tuple[Task, ...]:
        """Tasks that decide sampling and releases."""
        return tuple(task for task in self.tasks if task.primary)

    @property
    def heads(self) -> tuple[Task, ...]:
        """All that GEM predicts, in the order of its logits: each task, then its shorter windows."""
        return tuple(head for task in self.tasks for head in heads_of(task))

    def served(self, head: str) -> Task:
        """The task of which a head is one of the windows; of a task, itself."""
        return next(task for task in self.tasks for entry in heads_of(task) if entry.name == head)

    def parent_on(self, task: str, surface: str) -> str | None:
        """The task whose label has to be 1 for `task` to exist on a surface; None where it is direct."""
        return parent_on(self.tasks, task, surface)

    @property
    def context_columns(self) -> tuple[str, ...]:
        """Context columns of impressions."""
        return tuple(f"context_{name}" for name in self.context)

    @property
    def request_columns(self) -> dict[str, str]:
        """What a request may say of an ad, by the name it says it under -> column of impressions."""
        return {name: f"context_{name}" for name in self.context} | {name: name for name in self.impression_texts}

    @property
    def stats_ttl(self) -> timedelta:
        """How long a statistics row is served: a day, its lag and a grace for long days."""
        return timedelta(hours=24) + self.statistics.lag + GRACE

    @property
    def largest_lag(self) -> timedelta:
        """The largest declared lag of tasks and statistics."""
        return max([self.statistics.lag, *(task.lag for task in self.tasks)])

    @property
    def vertical_surfaces(self) -> tuple[str, ...]:
        """Surfaces that some vertical serves, in file order."""
        wanted = {surface for vertical in self.verticals for surface in vertical.surfaces}
        return tuple(name for name in self.surface_names if name in wanted)

    def vertical(self, name: str) -> Vertical:
        """The vertical of that name.

        Raises:
            GemlineError: there is none.
        """
        for entry in self.verticals:
            if entry.name == name:
                return entry
        known = ", ".join(entry.name for entry in self.verticals) or "none"
        raise GemlineError(f"world {self.name} has no vertical '{name}'; known: {known}")

    def keep_rate(self, surface: str) -> float:
        """Share of primary negatives kept on a surface."""
        return next(entry.keep_rate for entry in self.surfaces if entry.name == surface)

    def is_closed(self, ds: Day) -> bool:
        """Whether a day has zero impressions on purpose."""
        return ds in self.closed_days

    def days(self) -> list[Day]:
        """All days of a replay world."""
        return day_range(self.first_day, self.last_day or self.first_day)
