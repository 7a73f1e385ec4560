"""The suite of a day's statistics: Great Expectations' own range expectation on each column of the statistics frame.

Critical rules are about the day itself and what it refers to. Rules that compare it with other days, or with what
it was before, are warnings: they are shown and let the day through, so what is published never depends on the order
in which days were made.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from great_expectations.expectations import Expectation


@dataclass(frozen=True)
class DayRule:
    """Bounds of one statistic (`statistics.py`).

    Attributes:
        statistic: column of the statistics frame.
        low: smallest good value; None without one.
        high: largest good value.
        severity: `critical` closes the gate, `warning` is shown.
        says: what is wrong outside of the bounds, for people.
    """

    statistic: str
    low: float | None
    high: float | None
    severity: str
    says: str


RULES = (
    DayRule("orphans", None, 0, "critical", "rows without a partner there"),
    DayRule("seconds_before", None, 0, "critical", "seconds by which a stamp lies before its day"),
    DayRule("seconds_after", None, 0, "critical", "seconds by which a stamp lies after its day"),
    DayRule("rows_ratio", 1 / 3, 3, "warning", "times the usual number of rows of the days before"),
    DayRule("rows_lost", None, 0, "warning", "rows fewer than this day had until now"),
    DayRule("refused_share", None, 0.01, "warning", "of the day's raw rows were refused"),
    DayRule("new_column", None, 0, "warning", "column that the table did not have; it is null on other days"),
    DayRule("lost_column", None, 0, "warning", "column of the table that these rows lack; it is null from now on"),
    DayRule("null_share", None, 1, "warning", "times the share of rows without a value that is usual at most"),
    DayRule("null_rise", None, 0.1, "warning", "more of all rows without a value than on the days before"),
    DayRule("psi", None, 0.25, "warning", "stability index (PSI) of its distribution against the days before"),
    DayRule("rate_ratio", 0.5, 2, "warning", "times the share of ones of the days before"),
    DayRule("matched_ratio", 0.5, 2, "warning", "times the share of rows with a partner of the days before"),
    DayRule(
        "quiet_ratio",
        None,
        1,
        "warning",
        "times the usual silence before the day's end: the newest rows may be missing",
    ),
)
"""Bounds that hold for every table: PSI and ratios by the customary rules of thumb, none fitted to a data set."""

BY_STATISTIC = {rule.statistic: rule for rule in RULES}


def expectation_of(rule: DayRule) -> "Expectation":
    """A rule as an expectation on the statistics frame; a statistic that does not apply to a row is null there."""
    import great_expectations.expectations as gxe

    return gxe.ExpectColumnValuesToBeBetween(
        column=rule.statistic, min_value=rule.low, max_value=rule.high, severity=rule.severity, notes=rule.says
    )


def sentence(statistic: str, subject: str, value: float) -> str:
    """What a broken rule says of a subject, with its bounds."""
    rule = BY_STATISTIC[statistic]
    bounds = [
        f"at least {rule.low:.3g}" if rule.low is not None else "",
        f"at most {rule.high:.3g}" if rule.high is not None else "",
    ]
    return f"{subject}: {value:.4g} {rule.says} ({', '.join(filter(None, bounds))})"
