"""What a run's end means: a rejection is an outcome only when nothing else failed in that very run."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from orchestration import running
from orchestration.assets.lines import REJECTED
from orchestration.console import plain
from orchestration.running import Rejected, run_day, run_judged

DS = "2024-03-08"


def failing(name: str, **options: Any) -> dg.AssetsDefinition:
    @dg.asset(name=name, partitions_def=dg.DailyPartitionsDefinition("2024-03-07"))
    def step() -> None:
        if options:
            raise dg.Failure(**options)

    return step


REJECTION = {"description": "gem is rejected: worse; the live release stays", "metadata": {REJECTED: True}}
FAULT = {"description": "the disk is full"}


@pytest.fixture(autouse=True)
def instance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "instance", dg.DagsterInstance.ephemeral)


def world_of(monkeypatch: pytest.MonkeyPatch, **steps: dict[str, Any]) -> None:
    """Runs of `job` have these steps."""
    assets = [failing(name, **options) for name, options in steps.items()]
    job = dg.define_asset_job("job", dg.AssetSelection.all())
    defs = dg.Definitions(assets, jobs=[job], loggers={"plain": plain}, executor=dg.in_process_executor)
    monkeypatch.setattr(running, "build", lambda _: defs)


def test_a_rejection_is_told_and_keeps_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    world_of(monkeypatch, release=REJECTION, other={})
    said: list[str] = []
    steps = run_judged("w", "job", DS, said.append)
    assert said == [f"{DS}: job of {DS}: gem is rejected: worse; the live release stays"]
    assert {"release", "other"} <= {step.step for step in steps}
    with pytest.raises(Rejected):
        run_day("w", "job", DS)


def test_two_rejections_are_both_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world_of(monkeypatch, one=REJECTION, two={**REJECTION, "description": "feed is rejected"})
    said: list[str] = []
    run_judged("w", "job", DS, said.append)
    assert "gem is rejected" in said[0] and "feed is rejected" in said[0]


@pytest.mark.parametrize("steps", [{"a": FAULT}, {"a": REJECTION, "b": FAULT}, {"a": FAULT, "b": REJECTION}])
def test_another_fault_fails_whatever_was_rejected(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, steps: dict[str, Any]
) -> None:
    """Also when an evaluation of an earlier run of that day says rejected."""
    monkeypatch.setenv("GEMLINE_HOME", str(tmp_path))
    stale = tmp_path / "tiny" / "releases" / "gem" / "evaluations" / f"{DS}.json"
    stale.parent.mkdir(parents=True)
    stale.write_text('{"decision": {"kind": "rejected"}}')
    world_of(monkeypatch, **steps)
    said: list[str] = []
    with pytest.raises(Exception, match=r"failed: [ab]: the disk is full") as caught:
        run_judged("tiny", "job", DS, said.append)
    assert not isinstance(caught.value, Rejected)
    assert not said
