"""Counters of the service, in a registry of their own."""

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from serving.server.answers import Answer

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Metrics:
    """What `/metrics` shows."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("score_requests", "Scoring requests.", "vertical", "status")
        self.seconds = Histogram(
            "gemline_score_seconds", "Time of a scoring request.", ["vertical"], buckets=SECONDS, registry=self.registry
        )
        self.known = self._counter("scored_ads", "Scored ads by what was known of them.", "vertical", "known")
        self.source = self._counter("vector_sources", "Scored ads by source of their vector.", "vertical", "source")
        self.replaced = self._counter("replaced_scores", "Scores that were not finite.", "vertical", "task")
        self.missing = self._counter("missing_features", "Ids without usable features.", "view", "reason")
        self.untrained = self._counter("untrained_ids", "Scored ids that no training row had.", "vertical", "feature")
        self.mixed = self._counter("generation_mismatches", "Requests refused for mixing two generations.")

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"gemline_{name}", meaning, labels, registry=self.registry)

    def observe(self, answer: "Answer") -> None:
        """Count what an answer says of its ads."""
        for ad in answer.scores:
            self.known.labels(answer.vertical, ad.known).inc()
            self.source.labels(answer.vertical, ad.source).inc()
            for task in ad.replaced:
                self.replaced.labels(answer.vertical, task).inc()
        for view, reasons in answer.missing.items():
            for reason, ids in reasons.items():
                self.missing.labels(view, reason).inc(ids)

    def observe_untrained(self, vertical: str, ids: "Mapping[str, int]") -> None:
        """Count scored ids, by feature, that are served by the tables' default."""
        for feature, count in ids.items():
            if count:
                self.untrained.labels(vertical, feature).inc(count)

    def text(self) -> bytes:
        """The exposition format of Prometheus."""
        return generate_latest(self.registry)
