"""What a judgement shows: plotted numbers, JSON and tables."""

import json

import numpy as np
import pytest

from tests.training.test_streaming import log
from training import judgement
from training.evaluate import as_served, evaluate
from training.gate import Decision
from training.judgement import Judgement


@pytest.fixture
def made() -> Judgement:
    rows = log()
    rows.loc[rows["ds"] == "2024-03-08", "label"] = 0.0
    days = ("2024-03-08", 1, 5, 20)
    return Judgement(Decision("carried", "no evidence"), as_served(rows, *days), evaluate(rows, 5, 20), [], [])


def test_undefined_numbers_are_not_plotted_and_slices_are_those_with_most_positives(
    made: Judgement, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = made.plotted()
    assert all(np.isfinite(number) for number in found.values())
    assert found["positives_click"] == 0 and "ne_click" not in found and found["log_loss_click"] > 0
    assert {"ne_click_14d", "gauc_request_click_14d", "value_ne_click_14d"} <= found.keys()
    assert {"ne_click_14d_surface_feed", "calibration_click_14d_user_frequency_1-9"} <= found.keys()
    assert not any("_day_" in name for name in found)
    monkeypatch.setattr(judgement, "PLOTTED_SLICES", 1)
    (name,) = (name for name in made.plotted() if name.startswith("ne_click_14d_"))
    most = max((row for row in made.pooled if row.by not in ("all", "day")), key=lambda row: row.counts.positives)
    assert name == f"ne_click_14d_{most.by}_{most.value}"


def test_json_is_strict_and_holds_slices_and_reliability(made: Judgement) -> None:
    plain = json.loads(json.dumps(made.to_json(), allow_nan=False))
    assert plain["served"][0]["status"] == "undefined (one class)"
    assert {row["by"] for row in plain["pooled"]} == {"all", "surface", "user_frequency", "ad_frequency", "day"}
    (whole,) = (row for row in plain["pooled"] if row["by"] == "all")
    assert len(whole["reliability"]) == 10
    assert whole["metrics"]["auc"]["error"] == 0
    assert "### Reliability, 14 days" in plain["markdown"] and "nan" not in plain["markdown"].lower()
