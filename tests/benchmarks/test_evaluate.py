"""The bench compares the same slices of the same rows."""

import pytest

from benchmarks import evaluate


def test_the_control_has_the_slices_and_the_auc_of_the_streamed_way() -> None:
    own, control = evaluate.streamed(40_000), evaluate.exact(40_000)
    assert own["auc"].keys() == control["auc"].keys()
    assert len(own["auc"]) == 2 * (1 + 4 + 4 + 4 + 14)
    assert own["auc"] == pytest.approx(control["auc"], abs=1e-7)


def test_rows_do_not_depend_on_how_many_follow() -> None:
    first, whole = next(evaluate.batches(1000)), next(evaluate.batches(2 * evaluate.BATCH))
    assert len(first) == 1000 and len(whole) == evaluate.BATCH
    assert sum(len(batch) for batch in evaluate.batches(evaluate.BATCH + 7)) == evaluate.BATCH + 7
