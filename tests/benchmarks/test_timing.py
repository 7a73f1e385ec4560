"""Alternatives run in turns, warm-up apart, and the fastest turn counts."""

import time

from benchmarks.timing import fastest


def test_the_fastest_turn_counts() -> None:
    waits = {"steady": iter([0.03] * 5), "disturbed": iter([0.0, 0.2, 0.01, 0.1, 0.1])}
    calls: list[str] = []

    def call(name: str) -> None:
        calls.append(name)
        time.sleep(next(waits[name]))

    found = fastest({name: lambda name=name: call(name) for name in waits}, turns=4)
    assert calls == ["steady", "disturbed"] * 5
    assert 0.01 <= found["disturbed"] < found["steady"]
