"""The release report of a day: what was decided and why, as one HTML file that needs neither Dagster nor a network."""

from orchestration.reporting.facts import ReportFacts, gather, newest_day
from orchestration.reporting.render import report_file, write_report

__all__ = ["ReportFacts", "gather", "newest_day", "report_file", "write_report"]
