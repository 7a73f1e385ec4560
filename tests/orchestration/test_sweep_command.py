"""`gemline sweep`: faults in a sentence before anything starts, the ledger's days, and the file that it leaves."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from features.days import shift
from features.home import Home
from features.worlds import load_world
from orchestration.cli import main
from orchestration.sweeping import Asked, published_after, require_possible, swept, written
from tests.training.conftest import DAYS, make_plan
from tests.training.sweep.conftest import due_of
from training.compute import Compute
from training.mixing import Mixing
from training.plan import PlanError
from training.recipes import gem_tiny
from training.sweep.grid import SweepError
from training.sweep.trials import Rules

DAY = "--start 2024-03-07 --end 2024-03-08"


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (f"--world moon {DAY}", "no world 'moon'; known: complete_journey"),
        ("--world tiny --start 2024-03-07 --end 2024-03-07", "has 1 label days; it needs at least 2"),
        ("--world tiny --start 2024-03-08 --end 2024-03-07", "let --end be after --start"),
        ("--world tiny --start 2024-03-06 --end 2024-03-08", "world tiny goes from 2024-03-07 to 2024-03-11"),
        (f"--world tiny {DAY} --check-days 4", "a sweep over 2024-03-07 to 2024-03-12, days of the check included"),
        (f"--world tiny {DAY} --surface-tau attic=0.5", "mixing.taus names ['attic']; it may name ['feed', 'story']"),
        (f"--world tiny {DAY} --task-share click=0.5", "mixing.tasks names ['click']; it may name ['buy']"),
        (f"--world tiny {DAY} --surface-tau feed", "--surface-tau feed: write NAME=VALUE, for example feed=0.5"),
        (f"--world tiny {DAY} --task-share buy=some", "--task-share buy=some: write NAME=VALUE"),
        (f"--world tiny {DAY} --set model.dim=[", "--set model.dim=[: write NAME=VALUE"),
        (f"--world tiny {DAY} --set dim=4", "recipe gem_tiny has no ['dim']"),
        (f"--world tiny {DAY} --recipe gem_huge", "no recipe 'gem_huge'; known: gem_demo"),
        (f"--world tiny {DAY} --recipe vertical_tiny", "of kind 'vertical'; a sweep trains GEM"),
        (f"--world tiny {DAY} --budget 2", "budget is 2.0; it must be above 0 and at most 1"),
        (f"--world tiny {DAY} --tau nan", "tau is nan; it must be in [0, 1]"),
        (f"--world tiny {DAY} --budget 1", "give a budget or a task share below 1"),
        (f"--world tiny {DAY} --tolerance -1", "--tolerance -1.0: give a share of NE in per cent"),
    ],
)
def test_a_fault_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, sentence: str) -> None:
    monkeypatch.setenv("GEMLINE_HOME", str(tmp_path))
    ended = CliRunner().invoke(main, ["sweep", *command.split()])
    assert ended.exit_code == 1, ended.output
    assert ended.output.startswith("Error: ") and sentence in ended.output and ended.output.count("\n") == 1


def asked(**changes: Any) -> Asked:
    held = Asked(
        start=DAYS[0],
        end=DAYS[1],
        check_days=None,
        mixes=(Mixing(), Mixing(budget=0.3)),
        recipe=gem_tiny(),
        rules=Rules(n_min=5, tolerance=0.5),
        seed=7,
    )
    return replace(held, **changes)


def test_a_world_without_end_takes_any_later_day() -> None:
    world = load_world("tiny").model_copy(update={"last_day": None})
    require_possible(world, asked(check_days=30))


class HandTables:
    """What a sweep asks of `features.tables.Tables` but for plans and labels."""

    def __init__(self, root: Path, examples: tuple[str, ...], labels: tuple[str, ...]) -> None:
        self.world, self.home = load_world("tiny"), Home(root)
        self.days = {"examples": examples, "labels": labels}

    def readable_days(self, table: str) -> dict[str, str]:
        return dict.fromkeys(self.days[table], "hash")


@pytest.mark.parametrize(
    ("examples", "labels", "days"),
    [(DAYS, DAYS, 2), (DAYS, DAYS[:3], 1), (DAYS[:3], DAYS, 1), (DAYS[:2], DAYS, 0), ((*DAYS[:2], DAYS[3]), DAYS, 0)],
)
def test_the_check_goes_as_far_as_days_are_published(
    tmp_path: Path, examples: tuple[str, ...], labels: tuple[str, ...], days: int
) -> None:
    tables: Any = HandTables(tmp_path, examples, labels)
    assert published_after(tables, DAYS[1], 2) == days
    assert published_after(tables, DAYS[1], 1) == min(days, 1)


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Plans and labels of the trainer's synthetic files instead of Spark's; what was asked for is kept.

    The process keeps its number of threads, which joining would change for all tests after it.
    """
    whole, seen = make_plan(tmp_path / "files"), []

    def plan(tables: Any, line: Any, ds: str, recipe: Any, seed: int, found: Any) -> Any:
        seen.append((line.name, ds, found.parent, found.incumbent, found.walk))
        return replace(whole, partition=ds, walk=found.walk, recipe=recipe, seed=seed)

    monkeypatch.setattr("training.compute.join", Compute.alone)
    monkeypatch.setattr("training.chain.trainer_plan", plan)
    monkeypatch.setattr("training.judging.due_pairs", lambda tables, line, first, last: due_of(whole, first, last))
    return seen


def test_a_sweep_picks_checks_and_leaves_a_file(tmp_path: Path, planned: list[Any]) -> None:
    tables: Any = HandTables(tmp_path / "tiny", DAYS, DAYS)
    lines: list[str] = []
    found = swept(tables, asked(), lines.append)
    assert planned == [("gem", DAYS[1], None, None, DAYS[:1]), ("gem", DAYS[3], None, None, DAYS[1:3])]
    assert lines[0] == "the pick is checked on 2 later days"
    assert any(re.match(rf"2/2 tau 1, budget 0.3: walk 1/2 {DAYS[1]}", line) for line in lines)
    attempts = sorted(path.relative_to(tables.home.root).as_posix() for path in tables.home.root.rglob("COMMITTED"))
    assert attempts == [
        f"checkpoints/mixing-{name}/{day}/attempt-000001/COMMITTED"
        for name in ("all-rows", "tau-1-budget-0.3")
        for day in (DAYS[1], DAYS[3])
    ]
    told = json.loads(written(found, tmp_path / "new" / "sweep.json").read_text())
    assert told["pick"] == yaml.safe_load(told["overrides"])["mixing"]
    assert (told["small"]["last"], told["later"]["judged_from"], told["later"]["last"]) == (DAYS[1], DAYS[2], DAYS[3])
    assert told["agreement"]["sentences"][0].startswith("Ranking: insufficient (2)")


def test_without_later_days_nothing_is_checked(tmp_path: Path, planned: list[Any]) -> None:
    lines: list[str] = []
    tables: Any = HandTables(tmp_path / "tiny", DAYS[:2], DAYS[:2])
    found = swept(tables, asked(), lines.append)
    assert lines[0] == f"no day after {DAYS[1]} is published: no check"
    assert found.later is None and len(planned) == 1
    assert f"walked {DAYS[0]}, judged by labels of {DAYS[1]}\n" in found.markdown()
    assert "Not checked: no later day was walked." in found.markdown()


def test_a_later_day_that_was_asked_for_is_not_left_out(tmp_path: Path, planned: list[Any]) -> None:
    """The plan then says what is not published, instead of a shorter check that nobody asked for."""
    tables: Any = HandTables(tmp_path / "tiny", DAYS[:2], DAYS[:2])
    with pytest.raises(PlanError, match=shift(DAYS[3], 1)):
        swept(tables, asked(check_days=3), lambda line: None)


def test_days_that_no_arm_scored_are_refused(
    tmp_path: Path, planned: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make_plan(tmp_path / "others")
    other = due_of(whole, DAYS[1], DAYS[1]).assign(ds="2023-01-01")
    monkeypatch.setattr("training.judging.due_pairs", lambda tables, line, first, last: other)
    tables: Any = HandTables(tmp_path / "tiny", DAYS, DAYS)
    with pytest.raises(SweepError, match="was scored before; sweep over more days"):
        swept(tables, asked(check_days=0), lambda line: None)


@pytest.mark.assets
@pytest.mark.usefixtures("featured")
def test_a_sweep_of_tiny_from_its_tables() -> None:
    ended = CliRunner().invoke(main, ["sweep", "--world", "tiny", *DAY.split(), "--tau", "1", "--budget", "0.5"])
    assert ended.exit_code == 0, ended.output
    assert "## Small budget: walked 2024-03-07, judged by labels of 2024-03-08\n" in ended.output
    later = "walked 2024-03-08 to 2024-03-09, judged by labels of 2024-03-09 to 2024-03-10"
    assert f"## Later days: {later}\n" in ended.output
    told = json.loads((Home.of("tiny").root / "sweeps" / "mixing-2024-03-07-2024-03-08.json").read_text())
    whole, half = told["small"]["trials"]
    assert whole["mix"] == "all rows" and half["rows"] < whole["rows"]
    assert [row["rows"] for row in whole["table"]] == [row["rows"] for row in half["table"]]
    assert yaml.safe_load(told["overrides"])["mixing"] == told["pick"]
