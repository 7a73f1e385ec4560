"""What a run prints in a shell: one short line for what a person wants to see go by."""

import logging
import sys

import dagster as dg


class ShortLine(logging.Formatter):
    """Time, step and message."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, without Dagster's run id and event names."""
        meta = getattr(record, "dagster_meta", {})
        step = str(meta.get("step_key") or "").split("__")[-1]
        message = meta.get("orig_message") or record.getMessage()
        return f"  {self.formatTime(record, '%H:%M:%S')} {step:<16} {message}"


@dg.logger(config_schema={}, description="Progress of a run started from a shell: messages of level INFO and above.")
def plain(_context: dg.InitLoggerContext) -> logging.Logger:
    """Logger `plain`, chosen by `orchestration.running`."""
    made = logging.getLogger("gemline.run")
    made.setLevel(logging.INFO)
    made.propagate = False
    made.handlers.clear()
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(ShortLine())
    made.addHandler(handler)
    return made
