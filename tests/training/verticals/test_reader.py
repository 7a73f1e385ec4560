"""A vertical reads its part of the world, and of the foundation model one generation only."""

from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd
import pytest

from features.errors import GemlineError
from features.transform.histories import HistoryCut
from tests.training.conftest import DAYS
from tests.training.verticals.conftest import NEW, OLD, WIDTH, outputs_of, reference, vectors_of
from training.plan import Plan
from training.verticals.reader import VerticalReader


def lessons(reader: VerticalReader, plan: Plan, generation: str, day: str) -> list:
    rows = reader.labelled(day)
    return [*reader.lessons(rows, plan.schema, generation, 64, HistoryCut(5))], rows


def test_rows_of_other_surfaces_are_left_out(vertical: Plan) -> None:
    reader = VerticalReader(vertical, [], [reference()])
    for rows in (reader.examples(DAYS[1]), reader.labelled(DAYS[1]), reader.gate(DAYS[3])):
        assert len(rows)
        assert set(rows.columns["surface"].values) == {"feed"}


@pytest.mark.parametrize("generation", [OLD, NEW])
def test_everything_comes_of_one_generation(vertical: Plan, generation: str) -> None:
    reader = VerticalReader(vertical, [], [reference(OLD), reference(NEW)])
    parts, rows = lessons(reader, vertical, generation, DAYS[1])
    given = outputs_of(DAYS[1]).to_pandas().query("fm_generation == @generation").set_index("impression_id")
    vectors = vectors_of(DAYS[1]).to_pandas().query("fm_generation == @generation").set_index("impression_id")
    for positions, _, transfer in parts:
        for place, position in enumerate(positions):
            if rows.day[position] != date.fromisoformat(DAYS[1]).toordinal():
                continue
            impression = rows.impression_id[position]
            np.testing.assert_allclose(transfer.teacher[place], given.loc[impression, "logits"], rtol=1e-6)
            source = vectors.loc[impression, "source"]
            assert transfer.source[place] == ("none", "user", "exact").index(source)
            expected = np.zeros(WIDTH) if source == "none" else vectors.loc[impression, "vector"]
            np.testing.assert_allclose(transfer.vector[place], expected, rtol=1e-6)
    # memories of the two are mirror images of different draws, so they never agree
    assert (parts[0][2].memory.abs() > 0).all()


def test_the_teacher_teaches_later_examples_only(vertical: Plan) -> None:
    late = replace(reference(), last_label_day=DAYS[1])
    reader = VerticalReader(vertical, [], [late])
    for day, taught in ((DAYS[0], False), (DAYS[1], False), (DAYS[2], True)):
        parts, rows = lessons(reader, vertical, OLD, day)
        own = rows.day == date.fromisoformat(day).toordinal()
        mask = np.concatenate([transfer.taught.numpy() for _, _, transfer in parts])
        assert mask[own].all() == taught
        assert mask[own].any() == taught


def test_a_memory_leaves_out_what_sampling_would_not_have_kept(vertical: Plan) -> None:
    reader = VerticalReader(vertical, [], [reference()])
    rows = pd.concat([outputs_of(day).to_pandas() for day in DAYS[:-1]])
    kept = len(rows.query("fm_generation == @OLD and remembered and user_id.notna()"))
    assert len(reader.lessons_of(OLD).memory.day) == kept


def test_another_width_is_refused(vertical: Plan) -> None:
    with pytest.raises(GemlineError, match="each must have 5"):
        VerticalReader(vertical, [], [replace(reference(), width=5)])
