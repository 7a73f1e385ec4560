"""Recipes: plain functions that return every setting of a run; one is derived from another by `derive`.

One pass over the data in small batches: each pair is trained on once, so the embedding tables need a larger
step than the dense part (about three times) to learn a row from the few times that it is seen.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import Any

from features.errors import GemlineError
from features.transform.histories import HistoryCut
from models.gem.config import GemConfig
from models.vertical.config import VerticalConfig
from training.mixing import Mixing, MixingError

MODELS: dict[str, type[GemConfig] | type[VerticalConfig]] = {"gem": GemConfig, "vertical": VerticalConfig}
"""Kinds of models and what their sizes are said in."""

TASK_WEIGHTS = ("equal", "entropy")
"""Rules that `Recipe.task_weights` may name."""


def cut_of(model: GemConfig | VerticalConfig) -> HistoryCut:
    """Which events of a history a model of these sizes reads; a vertical's have no quotas."""
    return HistoryCut(model.history_length, model.history_quotas if isinstance(model, GemConfig) else {})


class RecipeError(GemlineError):
    """A recipe is unknown, or a value in it is none that it can have."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of a run.

    Attributes:
        name: the function it came from.
        kind: of the model, see `MODELS`.
        model: its sizes; `model.history_length` and its quotas are what the reader slices.
        batch_size: rows of a global batch, over all processes.
        score_batch_size: rows of a global batch when only scoring.
        table_lr: learning rate of row-wise Adagrad on embedding tables.
        dense_lr: learning rate of Adam on all else.
        adagrad_eps: added to the root of a row's squared gradients.
        adam_betas: decay of Adam's first and second moment.
        weight_decay: decoupled, on dense matrices.
        clip_norm: largest norm of the dense gradient.
        warmup_steps: steps over which the dense rate rises on a cold start.
        average: share of the running average of dense weights that a step keeps, see `training.optim`; 0: the last
            step's weights alone.
        distill_weight: of the auxiliary head's loss beside the labels' (verticals).
        task_weights: of the tasks' mean log-losses: "equal", "entropy" (each divided by the entropy of its base rate at
            the start, see `training.weights`), or factors by task, 1 where left out.
        mixing: which of the due rows are trained on, see `training.mixing`.
        recalibrate: whether probabilities are calibrated by what became due before, see `training.recalibration`.
    """

    name: str
    kind: str = "gem"
    model: GemConfig | VerticalConfig = field(default_factory=GemConfig)
    batch_size: int = 512
    score_batch_size: int = 2048
    table_lr: float = 0.03
    dense_lr: float = 0.001
    adagrad_eps: float = 1e-8
    adam_betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0
    clip_norm: float = 1.0
    warmup_steps: int = 20
    average: float = 0.99
    distill_weight: float = 1.0
    task_weights: str | Mapping[str, float] = "equal"
    mixing: Mixing = field(default_factory=Mixing)
    recalibrate: bool = False

    def __post_init__(self) -> None:
        """Refuse values that cannot train.

        Raises:
            RecipeError: naming the field.
        """
        for name in ("batch_size", "score_batch_size", "table_lr", "dense_lr", "adagrad_eps", "clip_norm"):
            if not getattr(self, name) > 0:
                raise RecipeError(f"recipe {self.name}: {name} is {getattr(self, name)}; it must be above 0")
        if min(self.warmup_steps, self.weight_decay, self.distill_weight) < 0:
            raise RecipeError(f"recipe {self.name}: warmup_steps, weight_decay and distill_weight must not be negative")
        if not 0 <= self.average < 1:
            raise RecipeError(f"recipe {self.name}: average is {self.average}; it must be in [0, 1)")
        self._check_task_weights()
        if not isinstance(self.recalibrate, bool):
            raise RecipeError(f"recipe {self.name}: recalibrate is {self.recalibrate!r}; it must be true or false")
        if self.kind not in MODELS or not isinstance(self.model, MODELS[self.kind]):
            raise RecipeError(f"recipe {self.name}: kind '{self.kind}' with a {type(self.model).__name__}")

    def _check_task_weights(self) -> None:
        given = self.task_weights
        if isinstance(given, str):
            if given not in TASK_WEIGHTS:
                raise RecipeError(
                    f"recipe {self.name}: task_weights is '{given}'; give one of {TASK_WEIGHTS}, or factors by task"
                )
        elif wrong := sorted(task for task, factor in given.items() if not 0 <= factor < float("inf")):
            raise RecipeError(f"recipe {self.name}: task_weights of {wrong} must be finite and not negative")

    @property
    def cut(self) -> HistoryCut:
        """Which events of a history the model reads."""
        return cut_of(self.model)

    def derive(self, overrides: Mapping[str, Any]) -> "Recipe":
        """This recipe with some values changed, for example from the Launchpad.

        Args:
            overrides: by field; a field of the model as `model.dim`, or under a nested `model` mapping; what is to
                change in `mixing` as a mapping.

        Raises:
            RecipeError: no such field, or a value that it cannot have.
        """
        own = {key: value for key, value in overrides.items() if key != "model" and not key.startswith("model.")}
        model = dict(overrides.get("model") or {})
        model |= {key.removeprefix("model."): value for key, value in overrides.items() if key.startswith("model.")}
        unknown = sorted(set(own) - {entry.name for entry in fields(self)})
        if unknown:
            known = sorted(entry.name for entry in fields(self))
            raise RecipeError(f"recipe {self.name} has no {unknown}; known: {known}, and model.<field>")
        try:
            if "mixing" in own:
                own["mixing"] = _mixing(self.mixing, own["mixing"])
            return replace(self, **_typed(own), model=type(self.model).from_dict(self.model.to_dict() | model))
        except (TypeError, ValueError, MixingError) as error:
            raise RecipeError(f"recipe {self.name}: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `from_dict` reads them back."""
        found = dict(json.loads(json.dumps(asdict(self))))
        if not self.recalibrate:
            # a model that is not recalibrated keeps the digest that it had before there was a choice
            del found["recalibrate"]
        return found

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Recipe":
        """Rebuild a recipe from `to_dict`.

        Raises:
            RecipeError: on an unknown key or an impossible value.
        """
        if "name" not in data:
            raise RecipeError("a recipe needs a name; take one from training.recipes.recipe(NAME)")
        kind = data.get("kind", "gem")
        if kind not in MODELS:
            raise RecipeError(f"recipe {data['name']}: kind '{kind}' is none of {sorted(MODELS)}")
        return cls(name=data["name"], kind=kind, model=MODELS[kind]()).derive(data)


def gem_demo() -> Recipe:
    """The default: a year of one store chain's households, trained in well under a minute on two cores."""
    model = GemConfig(dim=16, history_length=100, context_hidden=32, wukong_hidden=(64,), head_hidden=(64, 32))
    return Recipe(name="gem_demo", model=model)


def gem_small() -> Recipe:
    """The benchmarks' model on two cores: four layers over a long merged history, most of its compute on the events."""
    model = GemConfig(
        layers=4,
        history_length=600,
        attention_block=256,
        context_hidden=32,
        matching_hidden=32,
        dense_hidden=32,
        wukong_fm_tokens=4,
        wukong_linear_tokens=4,
        wukong_hidden=(64,),
        head_hidden=(64, 32),
    )
    return Recipe(name="gem_small", model=model)


def gem_base() -> Recipe:
    """For one GPU; nobody trained it here."""
    model = GemConfig(
        dim=96,
        layers=4,
        history_length=1_000,
        attention_heads=4,
        context_tokens=8,
        context_hidden=256,
        seeds=32,
        summary_tokens=8,
        matching_hidden=256,
        dense_hidden=256,
        experts=4,
        wukong_rank=16,
        wukong_fm_tokens=16,
        wukong_linear_tokens=16,
        wukong_hidden=(512,),
        head_hidden=(512, 256),
    )
    return Recipe(name="gem_base", model=model, batch_size=4096, score_batch_size=16384, warmup_steps=200)


def gem_large() -> Recipe:
    """For several GPUs; nobody trained it here."""
    larger = {
        "dim": 192,
        "layers": 8,
        "history_length": 5_000,
        "attention_heads": 8,
        "context_tokens": 16,
        "context_hidden": 512,
        "summary_tokens": 16,
        "wukong_rank": 24,
        "wukong_fm_tokens": 24,
        "wukong_linear_tokens": 24,
        "wukong_hidden": (1024, 1024),
        "head_hidden": (1024, 512),
        "cross_layer": True,
    }
    return gem_base().derive({"name": "gem_large", "model": larger, "batch_size": 2048})


ABLATIONS: dict[str, dict[str, Any]] = {
    "gem_small_interformer": {"architecture": "interformer", "pyramid_levels": 2},
    "gem_small_dlrm": {"architecture": "dlrm"},
    "gem_small_dcnv2": {"architecture": "dcnv2"},
    "gem_small_noskip": {"compskip": False},
    "gem_small_shallow": {"compskip": False, "layers": 2, "seeds": 32},
    "gem_small_towers": {"sequence": "towers"},
    "gem_small_untyped": {"event_projection": False},
    "gem_small_unturned": {"rotary": False},
    "gem_small_window": {"attention": "window"},
    "gem_small_pma": {"pooling": "attention"},
    "gem_small_crosslayer": {"cross_layer": True},
    "gem_small_oneexpert": {"experts": 1},
}
"""What each ablation or sibling of `gem_small` changes in it; the shallow one has its FLOPs without CompSkip."""


def ablation(name: str) -> Recipe:
    """`gem_small` with one thing changed."""
    return gem_small().derive({"name": name, "model": ABLATIONS[name]})


def gem_tiny() -> Recipe:
    """For tests: the same parts, as small as they go."""
    model = GemConfig(
        dim=8,
        history_length=10,
        attention_block=8,
        attention_window=4,
        activity_tokens=1,
        context_tokens=2,
        context_hidden=8,
        seeds=3,
        summary_tokens=2,
        matching_hidden=8,
        matching_tokens=1,
        dense_hidden=8,
        dense_tokens=1,
        wukong_rank=4,
        wukong_fm_tokens=2,
        wukong_linear_tokens=2,
        wukong_hidden=(16,),
        head_hidden=(16,),
    )
    return Recipe(
        name="gem_tiny", model=model, dense_lr=0.01, batch_size=32, score_batch_size=256, warmup_steps=4, average=0.0
    )


def vertical_demo() -> Recipe:
    """A small model of one surface: a fraction of GEM's size, with a short history."""
    return Recipe(name="vertical_demo", kind="vertical", model=VerticalConfig(), batch_size=256, dense_lr=0.002)


def vertical_tiny() -> Recipe:
    """For tests."""
    model = VerticalConfig(dim=4, history_length=5, dense_hidden=8, trunk_hidden=(16, 8))
    return Recipe(
        name="vertical_tiny",
        kind="vertical",
        model=model,
        dense_lr=0.003,
        batch_size=16,
        score_batch_size=256,
        warmup_steps=4,
        average=0.0,
    )


RECIPES: dict[str, Callable[[], Recipe]] = {
    function.__name__: function
    for function in (gem_demo, gem_small, gem_base, gem_large, gem_tiny, vertical_demo, vertical_tiny)
} | {name: partial(ablation, name) for name in ABLATIONS}


def recipe(name: str, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe by name, with values changed.

    Raises:
        RecipeError: unknown name, field or value.
    """
    if name not in RECIPES:
        raise RecipeError(f"no recipe '{name}'; known: {', '.join(RECIPES)}")
    return RECIPES[name]().derive(overrides or {})


def _typed(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists where the recipe has tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _mixing(held: Mixing, changes: Mapping[str, Any] | Mixing) -> Mixing:
    return changes if isinstance(changes, Mixing) else replace(held, **changes)
