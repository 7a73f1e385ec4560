"""A sweep over the synthetic input of the trainer: its days as two legs, and the labels that judge them."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from features.exact_frames import exact_frame
from tests.training.conftest import DAYS
from training.plan import Plan
from training.sweep.legs import check_leg, small_leg
from training.sweep.run import Stage


def due_of(plan: Plan, first: str, last: str) -> pd.DataFrame:
    """Labels due from `first` to `last` beside their impressions, as `training.judging.due_pairs` has them."""
    shown = pd.concat(
        [
            exact_frame(pq.read_table(entry.paths[0], columns=["impression_id", "request_id", "user_id", "surface"]))
            for entry in plan.examples.values()
        ]
    )
    days = [day for day in plan.labels if first <= day <= last]
    labels = pd.concat([exact_frame(pq.read_table(plan.labels[day].paths[0])).assign(label_ds=day) for day in days])
    return labels.merge(shown, on="impression_id")


@pytest.fixture
def stages(plan: Plan, tmp_path: Path) -> tuple[Stage, Stage]:
    """Two days to pick from, and the two after them to check the pick."""
    small, later = small_leg(DAYS[0], DAYS[1]), check_leg(DAYS[1], 2)
    first, second = (
        Stage(leg, replace(plan, walk=leg.walk, partition=leg.last), due_of(plan, leg.judged_from, leg.last))
        for leg in (small, later)
    )
    return first, second
