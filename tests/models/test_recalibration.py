"""Lines over logits: the right one for every surface and task, and a manifest's numbers to the last bit."""

import json

import pytest
import torch

from models.recalibration import Lines

TOLD = {
    "click": {
        "pooled": {"slope": 0.9, "offset": 0.1, "positives": 5.0, "level": "pooled"},
        "surfaces": {"feed": {"slope": 0.1 + 0.2, "offset": -1 / 3}, "story": {"slope": 2.0, "offset": 0.0}},
    },
    "buy": {"pooled": {"slope": 1.0, "offset": 0.0}, "surfaces": {"feed": {"slope": 1.5, "offset": 0.5}}},
}


def test_each_task_and_surface_has_its_line_and_others_what_is_pooled() -> None:
    lines = Lines.of(json.loads(json.dumps(TOLD)), ("story", "feed"), ("buy", "click"))
    assert lines.slope.tolist() == [[1.0, 2.0], [1.5, 0.1 + 0.2], [1.0, 0.9]]
    assert lines.offset.tolist() == [[0.0, 0.0], [0.5, -1 / 3], [0.0, 0.1]]
    logits = torch.tensor([[-1.0, 2.0], [-1.0, 2.0], [-1.0, 2.0], [0.25, -4.0]])
    found = lines.of_logits(logits, torch.tensor([0, 1, 2, 1]))
    assert found.dtype == torch.float64
    expected = [[-1.0, 4.0], [-1.0, 2 * (0.1 + 0.2) - 1 / 3], [-1.0, 1.8 + 0.1], [0.875, -4 * (0.1 + 0.2) - 1 / 3]]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_the_identity_changes_no_bit() -> None:
    identity = {"click": {"pooled": {"slope": 1.0, "offset": 0.0}, "surfaces": {}}}
    logits = torch.randn(100, 1) * 5
    found = Lines.of(identity, ("feed",), ("click",)).of_logits(logits, torch.zeros(100, dtype=torch.int64))
    assert torch.equal(found, logits.double())


def test_an_unknown_task_is_an_error() -> None:
    with pytest.raises(KeyError, match="like"):
        Lines.of(TOLD, ("feed",), ("click", "like"))
