"""A real sweep in seconds: the model's own run, identical rows for all mixes, fewer rows trained on, nothing twice."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

from features.errors import GemlineError
from training import checkpoint
from training.compute import Compute
from training.judging import PAIR
from training.mixing import Mixing, MixingError
from training.plan import Plan
from training.run import train
from training.sweep.arms import Arm, walked
from training.sweep.grid import SweepError
from training.sweep.run import Stage, sweep
from training.sweep.trials import Rules, judged
from training.walk import CANDIDATE

MIXES = (Mixing(), Mixing(tau=0.5, budget=0.5), Mixing(budget=0.2))
RULES = Rules(n_min=5, tolerance=0.5)
CPU = Compute.alone()


def silent(line: str) -> None:
    """Nobody listens."""


def predictions(*folders: Path) -> pd.DataFrame:
    rows = pd.concat([pq.read_table(folder / checkpoint.PREDICTIONS).to_pandas() for folder in folders])
    assert set(rows["role"]) == {CANDIDATE}
    return rows.drop_duplicates().sort_values(["scored_ds", *PAIR], ignore_index=True)


def test_a_sweep_judges_all_mixes_on_the_same_rows_and_picks(stages: tuple[Stage, Stage], tmp_path: Path) -> None:
    small, later = stages
    found = sweep(small, later, MIXES, RULES, tmp_path / "arms", CPU, silent)
    assert found.later is not None and found.agreement is not None
    for stage, outcome in ((small, found.small), (later, found.later)):
        assert [trial.mixing for trial in outcome.trials] == list(MIXES)
        whole, *others = outcome.trials
        clicks = stage.pairs[stage.pairs["task"] == "click"]
        for trial in outcome.trials:
            rows = [row for row in trial.table if (row.task, row.by) == ("click", "all")]
            assert rows[0].counts.rows == len(clicks) and rows[0].counts.positives == clicks["label"].sum()
            assert [(row.task, row.by, row.value, row.counts) for row in trial.table] == [
                (row.task, row.by, row.value, row.counts) for row in whole.table
            ]
        # all, a half and a fifth of the rows, positives on top
        assert whole.rows > 1.2 * others[0].rows > 1.2 * 1.2 * others[1].rows
        assert whole.lost("click").interval.low == whole.lost("click").interval.high == 1
        assert all(trial.lost("click").interval.low < trial.lost("click").interval.high for trial in others)
    assert [trial.rows for trial in found.small.trials] < [trial.rows for trial in found.later.trials]
    assert found.agreement.mixes == 3 and "insufficient (3)" in found.agreement.sentences()[0]
    chosen = found.small.pick.trial
    assert chosen is not None and chosen.rows == min(
        trial.rows for trial in found.small.trials if trial.at_most_lost("click") <= RULES.tolerance
    )
    told = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert yaml.safe_load(told["overrides"])["mixing"] == told["pick"]
    assert told["overrides"] in found.markdown()
    assert [trial["rows"] for trial in told["later"]["trials"]] == [trial.rows for trial in found.later.trials]


def test_no_mixing_is_the_model_of_the_day_itself(plan: Plan, stages: tuple[Stage, Stage], tmp_path: Path) -> None:
    """Two legs of an arm predict what one walk of the same plan predicts, bit by bit; a mix predicts something else."""
    arms = [Arm(mix) for mix in MIXES[:2]]
    for stage in stages:
        arms = walked(stage.plan, arms, tmp_path / "arms", CPU, silent)
    whole, half = arms
    straight = train(replace(plan, output=str(tmp_path / "straight")), CPU, silent)
    expected = predictions(straight)
    assert predictions(*whole.folders).equals(expected)
    other = predictions(*half.folders)
    assert other[["scored_ds", *PAIR]].equals(expected[["scored_ds", *PAIR]])
    assert not other["prediction"].equals(expected["prediction"])
    assert half.manifests[-1]["recipe"]["mixing"]["budget"] == 0.5
    # what judges an arm is the first prediction of a pair, as served
    served = whole.served(stages[1].pairs)
    first = expected.drop_duplicates(PAIR).set_index(PAIR)["prediction"]
    keys = pd.MultiIndex.from_frame(served[PAIR].astype({"impression_id": "int64"}))
    assert len(served) and served["prediction"].tolist() == first.loc[keys].tolist()


def test_what_was_walked_before_is_not_walked_again(stages: tuple[Stage, Stage], tmp_path: Path) -> None:
    lines: list[str] = []
    arms = walked(stages[0].plan, [Arm(mix) for mix in MIXES[:2]], tmp_path, CPU, lines.append)
    assert any("1/2 all rows: walk 1/1" in line for line in lines)
    lines.clear()
    again = walked(stages[0].plan, [Arm(mix) for mix in MIXES], tmp_path, CPU, lines.append)
    assert [arm.folders for arm in again[:2]] == [arm.folders for arm in arms]
    assert [line.split(":")[0] for line in lines if "trained before" in line] == [
        "1/3 all rows",
        "2/3 tau 0.5, budget 0.5",
    ]
    assert any("3/3 tau 1, budget 0.2: walk 1/1" in line for line in lines)


def test_arms_that_scored_other_rows_are_refused(stages: tuple[Stage, Stage], tmp_path: Path) -> None:
    small = stages[0]
    whole, half = walked(small.plan, [Arm(mix) for mix in MIXES[:2]], tmp_path, CPU, silent)
    path = half.folders[0] / checkpoint.PREDICTIONS
    rows = pq.read_table(path)
    pq.write_table(rows.slice(0, rows.num_rows - 1), path)
    with pytest.raises(GemlineError, match="paired comparison needs identical rows, but 1 of"):
        judged([whole, half], small.pairs, 5)


def test_days_without_a_scored_label_are_refused(stages: tuple[Stage, Stage], tmp_path: Path) -> None:
    small = stages[0]
    nothing = replace(small, pairs=small.pairs.assign(ds="2024-04-01"))
    with pytest.raises(SweepError, match=f"none of {len(small.pairs)} labels of the judged days"):
        sweep(nothing, None, MIXES[:2], RULES, tmp_path, CPU, silent)


def test_a_mix_of_an_unknown_surface_is_refused_before_anything_is_walked(
    stages: tuple[Stage, Stage], tmp_path: Path
) -> None:
    lines: list[str] = []
    with pytest.raises(MixingError, match=r"taus names \['attic'\]; it may name \['feed', 'story'\]"):
        sweep(stages[0], None, [Mixing(), Mixing(taus={"attic": 0.5}, budget=0.5)], RULES, tmp_path, CPU, lines.append)
    assert lines == []
