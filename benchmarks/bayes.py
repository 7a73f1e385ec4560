"""What the best possible model scores on `synthetic_ads`, per task and surface: NE and AUC of the true probabilities.

Expected over labels, not on drawn ones: a candidate counts as a positive with its probability and as a negative with
the rest, so the figures have no noise of labels. A task with a parent is judged where the parent's label is 1: such a
row weighs the parent's marginal. Controls: the AUC of clicks with each plant switched off.
"""

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.result import Bar, Result

if TYPE_CHECKING:
    import pandas as pd

    from features.worlds.schema import World

ALL = "all"


def run(quick: bool) -> Result:
    """Bayes figures of the shipped world.

    Args:
        quick: a tenth of its rows, and no controls.
    """
    from features.sources.synthetic_ads.parameters import Plants, Setting, parameters_hash
    from features.worlds import load_world

    world = load_world("synthetic_ads")
    options = Setting.of(world).options
    if quick:
        options = options.model_copy(update={"rows": options.rows // 10})
    shown = with_options(world, **options.model_dump())
    found = bayes(truth_frame(shown))
    clicks = {place: values for (task, place), values in found.items() if task == "click"}
    areas = [values["auc"] for values in found.values()]
    controls = {}
    for plant in () if quick else Plants.model_fields:
        off = with_options(world, **options.model_dump() | {"plants": options.plants.model_dump() | {plant: False}})
        controls[f"auc_click_without_{plant}"] = bayes(truth_frame(off, "click"))[("click", ALL)]["auc"]
    figures = {
        f"{name}_{task}_{place}": value for (task, place), values in found.items() for name, value in values.items()
    }
    edges = {
        "auc_least": min(areas),
        "auc_most": max(areas),
        "click_rate_least": min(values["rate"] for values in clicks.values()),
        "click_rate_most": max(values["rate"] for values in clicks.values()),
    }
    bars: dict[str, Bar] = {
        "auc_least": (">=", 0.75),
        "auc_most": ("<=", 0.85),
        "click_rate_least": (">=", 0.01),
        "click_rate_most": ("<=", 0.05),
    }
    notes = {"world": shown.name, "rows": options.rows, "synthetic": True, "parameters": parameters_hash(options)}
    return Result(figures=edges | figures, controls=controls, bars={} if quick else bars, notes=notes)


def with_options(world: "World", **options: object) -> "World":
    """The same world under other options of its adapter."""
    return world.model_copy(update={"source": world.source.model_copy(update={"options": options})})


def truth_frame(world: "World", task: str | None = None) -> "pd.DataFrame":
    """True probabilities of all days: surface, task, probability, marginal."""
    from pyspark.sql import functions as F

    from features.sources.synthetic_ads.truth import truth
    from features.spark import session

    frame = truth(session(), world, [ds for ds in world.days() if not world.is_closed(ds)])
    if task is not None:
        frame = frame.where(F.col("task") == task)
    return frame.select("surface", "task", "probability", "marginal").toPandas()


def bayes(truth: "pd.DataFrame") -> dict[tuple[str, str], dict[str, float]]:
    """Figures of true probabilities.

    Args:
        truth: surface, task, probability, marginal; a row a candidate and task.

    Returns:
        (task, surface or "all") -> rate, auc and ne.
    """
    found = {}
    for task, rows in truth.groupby("task"):
        for place, part in [(ALL, rows), *rows.groupby("surface")]:
            p = part["probability"].to_numpy()
            found[(str(task), str(place))] = _expected(p, part["marginal"].to_numpy() / p)
    return found


def _expected(p: np.ndarray, weight: np.ndarray) -> dict[str, float]:
    from training.metrics import Sample, auc, normalized_entropy

    label = np.concatenate((np.ones(len(p)), np.zeros(len(p))))
    rows = Sample.of(label, np.tile(p, 2), np.concatenate((weight * p, weight * (1 - p))))
    area, entropy = auc(rows).number, normalized_entropy(rows).number
    assert area is not None and entropy is not None
    return {"rate": float(weight @ p / weight.sum()), "auc": area, "ne": entropy}
