"""Low-cost data mixing: which of the due rows a model trains on, with a correction that is exact.

Surface s shows the share q_s of the day's rows and keeps m_s = min(1, c q_s^(tau - 1)) of them: at tau = 1 all
surfaces lose alike, at tau = 0 all keep equally many rows; c makes the expected number of rows the budget.
Published relatives sample domains by q_s^tau in the same way (0.5 to 1).

This thins once more what ingest has sampled at rate w, by the same number of the impression, now compared with
w m_s. A primary pair is kept when it is positive or chosen, and `keep_rate` becomes w m_s on every row, so the
offset -log(w m_s) of the loss leaves raw logits those of the full log. A pair of another task is kept when its
row is known to have a primary positive, with weight 1, or when it is chosen, with weight 1 / (w m_s). A task may
keep a share b of its pairs by a number of its own, with weight 1 / b on top.

The rates come from the rows that the day showed, never from labels, and every decision from the impression alone:
pairs of one impression that are due on different days meet the same number. Scoring and evaluation see all rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from features.errors import GemlineError
from features.transform.batch import Labels
from features.transform.columns import Column
from features.transform.sampling import SALT, kept, uniform
from features.transform.schema import FeatureSchema

if TYPE_CHECKING:
    from training.reader import Rows


class MixingError(GemlineError):
    """A mix cannot be had: a share or an exponent outside of its range, or a task that has no budget of its own."""


@dataclass(frozen=True, kw_only=True)
class Mixing:
    """What to train on.

    Attributes:
        tau: exponent of a surface's share of the rows, in [0, 1].
        taus: exponents of single surfaces instead of `tau`.
        budget: expected share of the day's rows that is trained on, in (0, 1]; primary positives come on top.
        tasks: share of pairs kept of single tasks that are not primary, in (0, 1].
    """

    tau: float = 1.0
    taus: Mapping[str, float] = field(default_factory=dict)
    budget: float = 1.0
    tasks: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what is no mix.

        Raises:
            MixingError: naming the value.
        """
        for name, tau in {"tau": self.tau, **{f"taus.{key}": value for key, value in self.taus.items()}}.items():
            if not 0 <= tau <= 1:
                raise MixingError(f"mixing: {name} is {tau}; it must be in [0, 1]")
        for name, share in {"budget": self.budget, **{f"tasks.{k}": value for k, value in self.tasks.items()}}.items():
            if not 0 < share <= 1:
                raise MixingError(f"mixing: {name} is {share}; it must be above 0 and at most 1")

    @property
    def whole(self) -> bool:
        """Whether every pair is trained on."""
        return self.budget == 1 and all(share == 1 for share in self.tasks.values())

    def require_fits(self, schema: FeatureSchema) -> None:
        """Refuse names that the schema does not have.

        Raises:
            MixingError: an unknown surface or task, or a primary task, whose pairs the offset corrects alone.
        """
        others = [task.name for task in schema.tasks if not task.primary]
        for what, named, known in (("taus", self.taus, schema.surfaces), ("tasks", self.tasks, others)):
            if unknown := sorted(set(named) - set(known)):
                raise MixingError(f"mixing.{what} names {unknown}; it may name {list(known)}")


def mixed(today: "Rows", due: "Rows", schema: FeatureSchema, mixing: Mixing) -> tuple["Rows", dict[str, Any]]:
    """The due rows of a label day that are trained on, and what the manifest says of it.

    Args:
        today: all rows that the day showed, which give the rates.
        due: rows whose pairs are due.
        schema: names tasks in the order of the labels' columns.
        mixing: what to train on.

    Returns:
        Rows, and by surface its rows shown, its rate, rows due and rows trained on; nothing when all are trained on.
    """
    if mixing.whole:
        return due, {}
    sizes = sizes_of(today)
    rates = rates_of(sizes, mixing)
    kept_rows = thinned(due, schema, mixing, rates)
    told = {}
    for name in sorted({*sizes, *due.columns["surface"].values.tolist()}):
        counts = [int((rows.columns["surface"].values == name).sum()) for rows in (due, kept_rows)]
        rate = rates.get(name, mixing.budget)
        told[name] = {"shown": sizes.get(name, 0), "rate": rate, "due": counts[0], "trained": counts[1]}
    return kept_rows, told


def sizes_of(rows: "Rows") -> dict[str, int]:
    """Rows that each surface showed: those that ingest would have kept whatever their labels."""
    chosen = kept(rows.impression_id, rows.columns["keep_rate"].values)
    names, counts = np.unique(rows.columns["surface"].values[chosen].astype(str), return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def rates_of(sizes: Mapping[str, int], mixing: Mixing) -> dict[str, float]:
    """The share m_s that each surface keeps: sum of m_s n_s = budget x sum of n_s.

    Args:
        sizes: n_s above 0, by surface.
        mixing: exponents and budget.
    """
    names = sorted(sizes)
    n = np.array([sizes[name] for name in names], dtype=np.float64)
    tau = np.array([mixing.taus.get(name, mixing.tau) for name in names])
    liking = (n / n.sum()) ** (tau - 1.0) if len(n) else n
    order = np.argsort(-liking, kind="stable")
    rate = np.ones(len(n))
    for whole in range(len(n)):
        # the surfaces liked best are kept whole until what is left of the budget suffices for no further one
        left, rest = mixing.budget * n.sum() - n[order[:whole]].sum(), order[whole:]
        rate[rest] = left / (n[rest] @ liking[rest]) * liking[rest]
        if rate[order[whole]] <= 1:
            break
        rate[order[whole]] = 1.0
    return dict(zip(names, np.minimum(rate, 1.0).tolist(), strict=True))


def thinned(rows: "Rows", schema: FeatureSchema, mixing: Mixing, rates: Mapping[str, float]) -> "Rows":
    """The due rows that are trained on, in their order, with exact `keep_rate`, masks and weights.

    Args:
        rows: due pairs, see `training.reader.Reader.labelled`.
        schema: names tasks in the order of the labels' columns.
        mixing: shares of tasks.
        rates: m_s by surface; a surface that is not there showed nothing that day and keeps the budget's share.
    """
    if mixing.whole:
        return rows
    assert rows.labels is not None
    column = rows.columns["keep_rate"]
    rate = column.values * _by_surface(rows, rates, mixing.budget)
    label, mask, weight = _mixed(rows, schema, rate)
    for index, task in enumerate(schema.tasks):
        share = mixing.tasks.get(task.name, 1.0)
        mask[:, index] *= uniform(rows.impression_id, f"{SALT}.{task.name}") < share
        weight[:, index] /= share
    columns = {**rows.columns, "keep_rate": Column(rate, column.missing)}
    mixed = replace(rows, columns=columns, labels=Labels(label, mask, np.where(mask > 0, weight, 0).astype(np.float32)))
    return mixed.take(np.flatnonzero(mask.any(axis=1)))


def _mixed(rows: "Rows", schema: FeatureSchema, rate: np.ndarray) -> Labels:
    """Labels, masks and weights after rows were thinned to the rates w m_s, float [N, T] each."""
    assert rows.labels is not None
    label, mask, weight = (np.array(part) for part in rows.labels)
    chosen, sure = kept(rows.impression_id, rate), known_positive(rows, schema)
    for index, task in enumerate(schema.tasks):
        certain = label[:, index] > 0 if task.primary else sure
        mask[:, index] *= chosen | certain
        weight[:, index] = np.where(certain, weight[:, index], 1.0 / rate)
    return Labels(label, mask, weight)


def known_positive(rows: "Rows", schema: FeatureSchema) -> np.ndarray:
    """Rows of which the due pairs tell that they have a primary positive, bool [N].

    They tell it by a primary label, by a task that exists only below a positive of a primary one, and by a weight of 1
    where ingest sampled. What they do not tell is decided by the row's number, which is as exact.
    """
    assert rows.labels is not None
    label, mask, weight = rows.labels
    primary = np.array([task.primary for task in schema.tasks])
    surfaces, place = np.unique(rows.columns["surface"].values.astype(str), return_inverse=True)
    below = np.array(
        [[_below_primary(task.name, surface, schema) for task in schema.tasks] for surface in surfaces.tolist()]
    ).reshape(len(surfaces), len(schema.tasks))
    sampled = rows.columns["keep_rate"].values < 1
    found = (mask * label)[:, primary].any(axis=1) | (mask * below[place]).any(axis=1)
    sure: np.ndarray = found | (sampled & ((mask > 0) & (weight == 1)).any(axis=1))
    return sure


def _below_primary(name: str, surface: str, schema: FeatureSchema) -> bool:
    """Whether a pair of the task tells of a primary positive: one is among its ancestors on the surface."""
    primary = {task.name for task in schema.tasks if task.primary}
    parent = schema.parent_on(name, surface)
    while parent is not None and parent not in primary:
        parent = schema.parent_on(parent, surface)
    return parent is not None


def _by_surface(rows: "Rows", rates: Mapping[str, float], otherwise: float) -> np.ndarray:
    names, place = np.unique(rows.columns["surface"].values.astype(str), return_inverse=True)
    return np.array([rates.get(name, otherwise) for name in names.tolist()])[place] if len(names) else np.ones(0)
