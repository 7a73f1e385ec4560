"""A day as an option or argument of the command line."""

from datetime import date
from typing import Any

import click


class Day(click.ParamType):
    """A day, kept as text."""

    name = "YYYY-MM-DD"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text of a day."""
        try:
            return date.fromisoformat(value).isoformat()
        except ValueError:
            self.fail(f"{value!r} is no day; write YYYY-MM-DD", param, ctx)


DAY = Day()


def is_day(text: str) -> bool:
    """Whether a text is a day as YYYY-MM-DD."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
