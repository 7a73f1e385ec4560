"""What `gemline quality` prints of a day: verdicts, warnings, refused rows, and where the Data Docs are."""

from typing import TYPE_CHECKING

from features.errors import GemlineError
from features.quality.validation import site

if TYPE_CHECKING:
    from features.tables import Gate, Tables


def newest_day(tables: "Tables") -> str:
    """Newest day of which the ledger says anything.

    Raises:
        GemlineError: it says nothing at all.
    """
    days = [gate.ds for gate in tables.ledger.rows()]
    if not days:
        raise GemlineError(f"nothing of world {tables.world.name} was audited yet; run `gemline run` first")
    return max(days)


def quality_text(tables: "Tables", ds: str) -> str:
    """Verdicts of a day's tables with their warnings, refused rows by rule and file, and the Data Docs' path.

    Raises:
        GemlineError: nothing was audited on that day.
    """
    from features.tables.quarantine import of_day
    from features.tables.specs import SPECS

    said = {gate.table: gate for gate in tables.ledger.rows() if gate.ds == ds}
    if not said:
        raise GemlineError(f"nothing of {ds} was audited; the newest audited day is {newest_day(tables)}")
    order = [name for name in SPECS if name in said] + sorted(said.keys() - SPECS.keys())
    lines = [line for name in order for line in _gate_told(said[name], tables)]
    refused = of_day(tables.spark, tables.home.tables, ds)
    lines += [f"refused: {one.rows} rows of {one.table}, {one.source}: {one.rule}" for one in refused]
    return "\n".join([*lines, f"data docs: {site(tables.home) / 'index.html'}"])


def _gate_told(gate: "Gate", tables: "Tables") -> list[str]:
    red = f": {gate.rule}: {gate.sample}" if gate.rule else ""
    checked = "nothing to check" if not gate.rows and not gate.rule else f"{gate.rows:,} rows"
    lines = [f"{gate.table:<24} {gate.verdict:<8} {checked}{red}"]
    lines += [f"  warning: {text}" for text in gate.warnings.splitlines()]
    pages = gate.pages.splitlines() if gate.warnings or gate.rule else []
    return lines + [f"  see {site(tables.home) / page}" for page in pages]
