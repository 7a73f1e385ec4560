"""Trials and outcomes by hand: numbers as a judgement would give them."""

from collections.abc import Sequence

from training.bootstrap import Estimate, Interval
from training.evaluate import MetricRow
from training.metrics import Counts, Reason, Value
from training.mixing import Mixing
from training.sweep.legs import small_leg
from training.sweep.trials import Outcome, Rules, Trial, picked

LEG = small_leg("2024-05-01", "2024-05-04")
RULES = Rules(n_min=50)


def ratio(value: float, width: float = 0.0) -> Estimate:
    return Estimate(Value(value), Interval(value - width, value + width, 500))


def unknown(value: float) -> Estimate:
    """A value without an interval."""
    return Estimate(Value(value), None, Reason.ONE_UNIT)


def undefined(reason: Reason) -> Estimate:
    return Estimate(Value.undefined(reason), None, reason)


def row(task: str, status: str = "ok", surface: str | None = None, **estimates: Estimate) -> MetricRow:
    by = "surface" if surface else "all"
    return MetricRow(task, by, surface, "2024-05-03", "2024-05-04", Counts(900, 60, 900.0, 60.0), status, estimates)


def trial(mixing: Mixing, rows: int, *against: MetricRow, table: Sequence[MetricRow] = ()) -> Trial:
    return Trial(mixing, f"digest of {mixing}", rows, rows // 10, 1.0, list(table), list(against))


def outcome(ratios: Sequence[float], width: float = 0.0005, status: str = "ok") -> Outcome:
    """All rows and mixes of ever smaller budgets, with these ratios of NE."""
    found = [trial(Mixing(), 1000, row("click", status, ne_ratio=ratio(1.0)))]
    for place, value in enumerate(ratios, start=1):
        mix = Mixing(budget=1 - place / 10)
        found.append(trial(mix, 1000 - 100 * place, row("click", status, ne_ratio=ratio(value, width))))
    if status != "ok":
        found = [trial(one.mixing, one.rows, row("click", status)) for one in found]
    return Outcome(LEG, found, picked(found, ("click",), RULES.tolerance))
