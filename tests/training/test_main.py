"""The entry: a plan in, a committed folder out; a killed run leaves nobody writing; Dagster hears of it."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from training import checkpoint
from training.launch import command
from training.plan import Plan
from training.walk import CANDIDATE

ROOT = Path(__file__).parent.parent.parent


def launch(path: Path, processes: int, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(path, processes),
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.distributed
@pytest.mark.timeout(120)
def test_two_runs_of_a_plan_at_two_ranks_give_one_digest(plan: Plan, tmp_path: Path) -> None:
    # sums and waiting logits of a recalibration are those of every rank
    recalibrated = replace(plan, recipe=plan.recipe.derive({"recalibrate": True}))
    path = recalibrated.write(tmp_path / "plan.json")
    digests = []
    for _ in range(2):
        run = launch(path, 2)
        out, err = run.communicate(timeout=60)
        assert run.returncode == 0, err[-3000:]
        assert f"walk 3/3 {plan.walk[-1]}: 150 scored, 169 trained, as-served NE click" in out
        folder = checkpoint.newest(Path(plan.output))
        assert folder is not None
        digests.append(checkpoint.manifest_of(folder)["digest"])
        assert digests[-1][:12] in out
        assert "Warning" not in err, err
    assert digests[0] == digests[1]
    manifest = checkpoint.manifest_of(folder)
    assert manifest["world_size"] == 2
    assert manifest["recalibration"][CANDIDATE]["click"]["pooled"]["positives"] > 0


@pytest.mark.distributed
@pytest.mark.timeout(120)
def test_a_failure_is_one_sentence_and_an_exit_code(plan: Plan, tmp_path: Path) -> None:
    Path(plan.examples[plan.walk[0]].paths[0]).unlink()
    run = launch(plan.write(tmp_path / "plan.json"), 1)
    out, _ = run.communicate(timeout=60)
    assert run.returncode != 0
    assert f"failed: examples of {plan.walk[0]}: cannot read" in out
    assert checkpoint.newest(Path(plan.output)) is None


@pytest.mark.distributed
@pytest.mark.timeout(120)
def test_a_killed_launcher_leaves_no_process_and_no_checkpoint(plan: Plan, tmp_path: Path) -> None:
    slow = replace(plan, recipe=plan.recipe.derive({"batch_size": 1, "score_batch_size": 1}))
    run = launch(slow.write(tmp_path / "plan.json"), 2)
    assert run.stdout is not None
    assert run.stdout.readline().startswith("read ")
    ranks = descendants(run.pid)
    assert len(ranks) >= 2
    run.send_signal(signal.SIGKILL)
    run.wait(timeout=10)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(alive(pid) for pid in ranks):
        time.sleep(0.1)
    assert [pid for pid in ranks if alive(pid)] == []
    assert checkpoint.newest(Path(plan.output)) is None


@pytest.mark.distributed
@pytest.mark.timeout(120)
def test_dagster_pipes_carries_lines_and_the_result(plan: Plan, tmp_path: Path) -> None:
    from dagster_pipes import encode_param

    messages, context = tmp_path / "messages", tmp_path / "context.json"
    context.write_text(
        json.dumps(
            {
                "asset_keys": None,
                "code_version_by_asset_key": None,
                "provenance_by_asset_key": None,
                "partition_key": None,
                "partition_key_range": None,
                "partition_time_window": None,
                "run_id": "r",
                "job_name": "j",
                "retry_number": 0,
                "extras": {},
            }
        )
    )
    run = launch(
        plan.write(tmp_path / "plan.json"),
        1,
        DAGSTER_PIPES_CONTEXT=encode_param({"path": str(context)}),
        DAGSTER_PIPES_MESSAGES=encode_param({"path": str(messages)}),
    )
    _, err = run.communicate(timeout=60)
    assert run.returncode == 0, err[-3000:]
    told = [json.loads(line) for line in messages.read_text().splitlines()]
    lines = [entry["params"]["message"] for entry in told if entry["method"] == "log"]
    assert any(line.startswith("walk 1/3") for line in lines)
    (result,) = [entry["params"]["payload"] for entry in told if entry["method"] == "report_custom_message"]
    assert result["folder"] == str(checkpoint.newest(Path(plan.output)))
    assert result["metrics"]["steps"] > 0


def test_a_wrong_command_line_says_how(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "training.launch"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "plan" in done.stderr


def descendants(pid: int) -> list[int]:
    """Processes below one, from /proc."""
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return children + [below for child in children for below in descendants(child)]


def alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
