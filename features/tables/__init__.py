"""Delta tables behind the gates ledger: written by write-audit-publish, read only where the ledger says so."""

from features.tables.decisions import Decisions, ModelDecision
from features.tables.ledger import Gate, Verdict
from features.tables.publishing import DayResult
from features.tables.tables import PinnedDay, Tables

__all__ = ["DayResult", "Decisions", "Gate", "ModelDecision", "PinnedDay", "Tables", "Verdict"]
