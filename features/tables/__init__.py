"""Delta tables behind the gates ledger: written by write-audit-publish, read only where the ledger says so."""

from features.tables.ledger import Gate, Verdict
from features.tables.tables import DayResult, PinnedDay, Tables

__all__ = ["DayResult", "Gate", "PinnedDay", "Tables", "Verdict"]
