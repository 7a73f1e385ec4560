"""Who hears about a run: Dagster through Pipes if that began it, else standard output. Only rank 0 speaks."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from training.checkpoint import MANIFEST


class Report(Protocol):
    """Lines while a run goes on, and one result."""

    def say(self, line: str) -> None:
        """A line of progress."""

    def done(self, folder: Path, manifest: dict[str, Any]) -> None:
        """The run has committed."""

    def failed(self, reason: str) -> None:
        """The run ends without a checkpoint."""


class Printed:
    """To standard output."""

    def say(self, line: str) -> None:
        """Print the line."""
        print(line, flush=True)

    def done(self, folder: Path, manifest: dict[str, Any]) -> None:
        """Name what was made."""
        self.say(f"model {manifest['digest'][:12]} in {folder}; see {MANIFEST}")

    def failed(self, reason: str) -> None:
        """Print the reason."""
        self.say(f"failed: {reason}")


class Silent:
    """For all ranks but the first."""

    def say(self, line: str) -> None:
        """Nothing."""

    def done(self, folder: Path, manifest: dict[str, Any]) -> None:
        """Nothing."""

    def failed(self, reason: str) -> None:
        """Nothing."""


class Piped:
    """To Dagster: lines into the run's log; the result, or the reason of a failure, as a custom message.

    The message is `{"folder", "digest", "metrics"}` or `{"error"}`; the asset turns it into its
    materialization.
    """

    def __init__(self, context: Any) -> None:
        """Speak through an open `dagster_pipes` context."""
        self.context = context

    def say(self, line: str) -> None:
        """Log the line."""
        self.context.log.info(line)

    def done(self, folder: Path, manifest: dict[str, Any]) -> None:
        """Send the result."""
        result = {"folder": str(folder), "digest": manifest["digest"], "metrics": manifest["metrics"]}
        self.context.report_custom_message(result)

    def failed(self, reason: str) -> None:
        """Send and log the reason."""
        self.context.log.error(reason)
        self.context.report_custom_message({"error": reason})


@contextmanager
def reporting(rank: int) -> Iterator[Report]:
    """What this rank reports to."""
    if rank != 0:
        yield Silent()
    elif "DAGSTER_PIPES_CONTEXT" in os.environ:
        from dagster_pipes import open_dagster_pipes

        with open_dagster_pipes() as context:
            yield Piped(context)
    else:
        yield Printed()
