"""CompSkip on the recipe that `peers` uses: what it saves by count, on paper and in time, and what it costs in quality.

Arms: the recipe, the same without CompSkip, and the control that matters: a shallower model without CompSkip of equal
FLOPs. Counted FLOPs, closed form and times are of the same batch of the log; quality is purchase on the promotional
surfaces of the real log, trained on weeks 20-39, judged on weeks 40-43, the same rows and seeds for all arms, intervals
by resampling households and seeds. Predictions are kept, so an ended run goes on where it was.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.result import Bar, Result

if TYPE_CHECKING:
    from benchmarks.rivals.dataset import Dataset, Truth
    from features.transform.batch import Batch
    from features.transform.schema import FeatureSchema
    from training.metrics import Floats
    from training.recipes import Recipe

OWN, WITHOUT, SHALLOW = "gem_small", "gem_small_noskip", "gem_small_shallow"
ARMS = (OWN, WITHOUT, SHALLOW)
WEEKS = (20, 39, 40, 43)
HOUSEHOLDS = 0.25
SEEDS = (7, 8, 9)
BARS: dict[str, Bar] = {
    "off_closed_form": ("<=", 0.0),
    "flops_saved": (">=", 0.43),
    "forward_ratio": (">=", 1.35),
    "step_ratio": (">=", 1.35),
    "auc_loss": ("<=", 0.001),
    "auc_gain_over_shallow": (">=", 0.0),
}


def run(quick: bool) -> Result:
    """Count, time, and in full train and judge.

    Args:
        quick: a random batch as dense as the log's, no training.
    """
    from benchmarks.arms import log_batch
    from features.schema_of import schema_of
    from features.worlds import load_world

    recipes = arms()
    if quick:
        schema = schema_of(load_world("complete_journey"))
        batch = log_batch(schema, recipes[OWN].model.history_length)
        return _result(*_cost(recipes, schema, batch, turns=5))
    dataset, truth = _dataset()
    figures, controls, notes = _cost(recipes, dataset.files.schema, _middle_batch(dataset, recipes[OWN]), turns=15)
    quality, scores, intervals, told = _quality(dataset, truth)
    return _result(figures | quality, controls | scores, notes | told, intervals, len(SEEDS))


def arms() -> "dict[str, Recipe]":
    """The arms, with the settings that `peers` uses."""
    from benchmarks.rivals.contenders import tuned
    from training.recipes import recipe

    return {name: recipe(name, tuned(name)) for name in ARMS}


def _result(
    figures: dict[str, float],
    controls: dict[str, float],
    notes: dict[str, Any],
    intervals: dict[str, tuple[float, float]] | None = None,
    seeds: int = 1,
) -> Result:
    bars = {name: bar for name, bar in BARS.items() if name in figures}
    return Result(figures, controls, intervals or {}, bars, seeds, notes)


def _cost(
    recipes: "dict[str, Recipe]", schema: "FeatureSchema", batch: "Batch", *, turns: int
) -> tuple[dict[str, float], dict[str, float], dict[str, Any]]:
    """Figures, controls and notes of one batch."""
    from benchmarks.arms import costs

    found = costs(recipes, schema, batch, turns=turns)
    own, without, shallow = (found[name] for name in ARMS)
    off, parts = on_paper(recipes, schema, batch)
    figures = {
        "off_closed_form": float(off),
        "flops_saved": 1 - own.flops / without.flops,
        "forward_ratio": without.forward / own.forward,
        "step_ratio": without.step / own.step,
    }
    controls = {
        "shallow_flops_ratio": shallow.flops / own.flops,
        "shallow_step_ratio": shallow.step / own.step,
        **{f"{name}_{what}": value for name, cost in found.items() for what, value in cost._asdict().items()},
    }
    notes = {
        "rows": len(batch),
        "requests": len(batch.history_lengths),
        "events": int(batch.history_lengths.sum()),
        "shares_without_compskip": parts,
        "threads": 1,
    }
    return figures, controls, notes


def on_paper(recipes: "dict[str, Recipe]", schema: "FeatureSchema", batch: "Batch") -> tuple[int, dict[str, float]]:
    """Largest |counted - closed form| of the arms' backbones, and the parts' shares of the model without CompSkip."""
    from models.gem import flops
    from models.gem.backbone import Sizes
    from models.gem.config import GemConfig
    from models.gem.model import Gem
    from training.flops import count

    off, shares = 0, {}
    for name, recipe in recipes.items():
        assert isinstance(recipe.model, GemConfig)
        model = Gem(schema, recipe.model)
        given: list[Any] = []
        model.backbone.register_forward_pre_hook(lambda _, inputs, given=given: given.append(inputs))
        whole = count(model, batch)
        own, shared, towers, row = given.pop()
        load = flops.Load(len(shared), len(own), sum(events.layout.mask.numel() for events in towers))
        parts = flops.kunlun(recipe.model, Sizes(own.shape[1], shared.shape[1], len(towers)), load)
        off = max(off, abs(count(model.backbone, own, shared, towers, row) - parts.total))
        if name == WITHOUT:
            shares = {part: value / whole for part, value in parts._asdict().items()}
            shares["outside_of_the_backbone"] = 1 - parts.total / whole
    return off, shares


def _dataset() -> "tuple[Dataset, Truth]":
    from benchmarks.rivals.dataset import Span, Weeks, open_records
    from benchmarks.rivals.world import year_world

    first, last, judged, end = WEEKS
    span = Span(Weeks(first, last), Weeks(judged, end))
    return open_records(year_world(), span.judged.days[-1]).dataset(span, HOUSEHOLDS)


def _middle_batch(dataset: "Dataset", recipe: "Recipe") -> "Batch":
    """A batch of the day in the middle of the training weeks."""
    from training.compute import Compute

    day = dataset.days[len(dataset.days) // 2]
    rows = dataset.training_days(SEEDS[0])(day)
    batches = dataset.reader.batches(rows, dataset.files.schema, recipe.batch_size, Compute.alone().share, recipe.cut)
    return next(batch for _, batch in batches)


def _quality(
    dataset: "Dataset", truth: "Truth"
) -> tuple[dict[str, float], dict[str, float], dict[str, tuple[float, float]], dict[str, Any]]:
    """AUC of the recipe against both others on the judged weeks."""
    import numpy as np

    from benchmarks.rivals import judge
    from benchmarks.rivals.contenders import predictions, tuned

    given: dict[str, Floats] = {
        name: np.stack([predictions(name, tuned(name), dataset, seed) for seed in SEEDS]) for name in ARMS
    }
    loss = judge.auc_gain(truth, given[WITHOUT], given[OWN])
    gain = judge.auc_gain(truth, given[OWN], given[SHALLOW])
    estimates = {"auc_loss": loss, "auc_gain_over_shallow": gain}
    estimates["ne_ratio_to_noskip"] = judge.ne_ratio(truth, given[OWN], given[WITHOUT])
    estimates["ne_ratio_to_shallow"] = judge.ne_ratio(truth, given[OWN], given[SHALLOW])
    scores = {f"{arm}_{what}": value for arm in ARMS for what, value in asdict(judge.scores(truth, given[arm])).items()}
    return (
        {name: estimate.value for name, estimate in estimates.items()},
        scores,
        {name: (estimate.low, estimate.high) for name, estimate in estimates.items()},
        {"fitted": len(dataset.fit), "judged": len(dataset.judged), "households": HOUSEHOLDS},
    )
