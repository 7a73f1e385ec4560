"""How times are written in a log: the words of `times`, checked when the world file is read.

- `iso`: ISO 8601, ISO weeks (`2024-W10`) and plain dates among them.
- `s`, `ms`, `us`, `ns`, `days`, `weeks`: numbers since 1970-01-01, or since another day: `weeks since 2017-01-02`.
- a pattern of Spark's datetime letters: `dd/MM/yy`, `MM/dd/yyyy HH:mm:ss`. One letter takes one or two digits
  (`d/M/yy`); two-digit years are of this century.
"""

import re
from dataclasses import dataclass
from datetime import date
from typing import Any

UNITS = {
    "s": 10**6,
    "ms": 10**3,
    "us": 1,
    "ns": 1,
    "days": 86_400 * 10**6,
    "weeks": 7 * 86_400 * 10**6,
}
"""Microseconds of a unit; nanoseconds are divided instead."""
CALENDAR = ("days", "weeks")
"""Units that the wall clock counts: a day of 23 hours is a day."""
NUMBER = re.compile(rf"^({'|'.join(UNITS)})( since (\d{{4}}-\d{{2}}-\d{{2}}))?$")
LETTERS = set("yMdHhmsSaXxZzVO'")
PARTS = ("y", "M", "d")


@dataclass(frozen=True)
class Counted:
    """Times that are numbers: a unit, and the day from which it counts."""

    unit: str
    since: str


def counted(spelling: str) -> Counted | None:
    """The meaning of a spelling by numbers; None of another."""
    found = NUMBER.match(spelling)
    return Counted(found[1], found[3] or "1970-01-01") if found else None


def letters(pattern: str) -> str:
    """The letters of a pattern that stand for something: without what is quoted."""
    return re.sub(r"'[^']*'", "", pattern)


def has_zone(pattern: str) -> bool:
    """Whether texts of this pattern say their offset or zone."""
    return any(letter in letters(pattern) for letter in "XxZzVO")


def checked_spelling(value: Any) -> Any:
    """The spelling, if it is one.

    Raises:
        ValueError: names the fault.
    """
    if not isinstance(value, str) or value == "iso":
        return value
    number = counted(value)
    if number is not None:
        date.fromisoformat(number.since)
        return value
    found = letters(value)
    wrong = sorted({letter for letter in found if letter.isalpha()} - LETTERS)
    missing = [part for part in PARTS if part not in found]
    if wrong or missing:
        reason = f"unknown letters {', '.join(wrong)}" if wrong else f"no {' and no '.join(missing)}"
        hint = " (months are MM; mm are minutes)" if "M" in missing and "m" in found else ""
        raise ValueError(
            f"'{value}' is no spelling of times ({reason}{hint}); write iso, {', '.join(UNITS)}, one of these with "
            "`since DAY`, or a pattern such as dd/MM/yy HH:mm"
        )
    return value
