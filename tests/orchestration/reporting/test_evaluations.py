"""Evaluation files are read into numbers or reasons, never into something in between."""

import json
from typing import Any

import pandas as pd
import pytest

from features.errors import GemlineError
from features.home import Home
from orchestration.reporting.evaluations import evaluated_days, read_evaluation
from tests.orchestration.reporting.conftest import DS, Writer, good, judged, number, sliced


def only(home: Home, write: Writer, metrics: dict[str, Any]) -> Any:
    write("gem", judged(served=[sliced("click", None, metrics)]))
    found = read_evaluation(home, "gem", DS)
    assert found
    return found.served[0].estimates["ne"]


def test_a_file_is_read_whole(home: Home, write: Writer) -> None:
    write("gem", judged(digest="abc", generation="gen-1", transfer=[]))
    found = read_evaluation(home, "gem", DS)
    assert found
    assert (found.decision, found.digest, found.generation, found.transfer) == ("promoted", "abc", "gen-1", ())
    assert found.evidence[0].days == ("today", "2024-03-08")
    assert found.served[0].estimates["ne"].value == good()["ne"]["value"]
    assert found.served[0].estimates["gauc"].groups == 31
    assert found.pooled[1].status == "insufficient (3)" and not found.pooled[1].estimates


@pytest.mark.parametrize(
    "entry", [None, {}, number(None), number(float("nan"), 0.1, 0.2), number(float("inf"))], ids=repr
)
def test_what_is_no_finite_number_is_undefined_with_a_reason(home: Home, write: Writer, entry: Any) -> None:
    found = only(home, write, {"ne": entry})
    assert found.value is None
    assert found.reason == "no reason was recorded"


def test_half_an_interval_is_none(home: Home, write: Writer) -> None:
    found = only(home, write, {"ne": number(0.5, 0.4, None, reason="fewer than two users")})
    assert (found.low, found.high, found.reason) == (None, None, "fewer than two users")


def test_without_rows_there_are_no_days(home: Home, write: Writer) -> None:
    write("gem", judged(pooled=[sliced("click", None, first_day=None, last_day=None, rows=0)], against_popularity=None))
    found = read_evaluation(home, "gem", DS)
    assert found and found.pooled[0].days == "" and found.against_popularity == () and found.transfer is None


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"decision": {"kind": "great", "reason": ""}}'])
def test_a_damaged_file_says_how_to_mend_it(home: Home, write: Writer, content: str) -> None:
    write("gem", content)
    with pytest.raises(GemlineError, match=r"evaluation of gem of 2024-03-10 cannot be read.*again"):
        read_evaluation(home, "gem", DS)


def test_only_files_of_days_count(home: Home, write: Writer) -> None:
    for name in (DS, "2024-03-08", "notes"):
        write("gem", judged(), name)
    assert evaluated_days(home, "gem") == ["2024-03-08", DS]
    assert evaluated_days(home, "feed_click") == []


def test_what_training_writes_is_what_is_read(home: Home, write: Writer) -> None:
    from training import evaluate
    from training.gate import Decision
    from training.judgement import Judgement

    rows = pd.DataFrame(
        {
            "surface": "feed",
            "task": "click",
            "user_id": [1, 1, 2, 2, 3, 3],
            "ds": DS,
            "label": [1, 0, 1, 0, 0, 1],
            "weight": 1.0,
            "prediction": [0.7, 0.2, 0.4, 0.5, 0.1, 0.6],
        }
    )
    table = evaluate.evaluate(rows, 2, resamples=20)
    made = Judgement(Decision("carried", "too little"), table, evaluate.evaluate(rows, 100), [], transfer=[])
    write("gem", json.dumps(made.to_json(), allow_nan=False))
    found = read_evaluation(home, "gem", DS)
    assert found
    assert found.served[0].estimates["ne"].value == table[0].estimates["ne"].value.number
    assert found.served[0].days == DS and found.served[0].positives == 3
    assert found.pooled[0].status == "insufficient (3)"
    assert [(row.by, row.value) for row in found.served] == [("all", None), ("surface", "feed")]
    bins = table[0].reliability
    assert [found.predicted for found in found.served[0].reliability] == [part.predicted for part in bins]
    assert sum(part.rows for part in found.served[0].reliability) == 6
