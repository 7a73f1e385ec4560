"""A bar is met only by the near end of its interval; every result is strict JSON."""

import json

from benchmarks.__main__ import code_hash, names
from benchmarks.result import Result, line


def test_a_bar_inside_the_interval_is_inconclusive() -> None:
    result = Result(
        figures={"ratio": 0.9, "gain": 0.1, "loss": 2.0},
        intervals={"ratio": (0.85, 1.05), "gain": (0.05, 0.15)},
        bars={"ratio": ("<=", 1.0), "gain": (">=", 0.0), "loss": ("<=", 1.0)},
    )
    assert result.met() == {"ratio": "inconclusive", "gain": True, "loss": False}


def test_the_line_is_strict_json() -> None:
    found = json.loads(line("popularity", "quick", Result(figures={"ne": 0.5}), 0.0))
    assert found["bench"] == "popularity"
    assert found["machine"]["gemm_gflops"] > 0


def test_benchmarks_are_found_and_their_code_is_hashed() -> None:
    assert "popularity" in names()
    assert code_hash() == code_hash()
