"""The one family of errors that users see: each message says what is wrong, where, and how to mend it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from features.tables.publishing import DayResult


class GemlineError(Exception):
    """A fault that the user can mend; its message is one clear sentence, shown without a stack trace."""


class WorldError(GemlineError):
    """A world file is missing, malformed or inconsistent."""


class GateClosed(GemlineError):
    """A day was asked for that no ledger row declares readable."""


class QualityFailed(GemlineError):
    """A day's rows broke a critical expectation, so nothing of it was published.

    Attributes:
        results: one `DayResult` for each published day and, last, for the red one.
    """

    def __init__(self, message: str, results: "Sequence[DayResult]" = ()) -> None:
        """Keep the per-day results beside the sentence."""
        super().__init__(message)
        self.results = tuple(results)


class Busy(GemlineError):
    """Another process holds the world's writer lock."""
