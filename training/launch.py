"""Start a run in several processes, none of which outlives whoever started it.

`python -m training.launch --processes 2 PLAN.json` is torchrun (`python -m torch.distributed.run
--standalone`) of `training.main`, asked to die with its parent; its ranks do the same, so a killed run leaves
no process writing.
"""

import argparse
import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def command(plan: Path, processes: int = 2) -> list[str]:
    """The command line of a run, for Dagster Pipes or a shell; run it from the repository's root."""
    return [sys.executable, "-m", "training.launch", "--processes", str(processes), str(plan)]


def plain_command(plan: Path) -> list[str]:
    """The command line of a run in one plain process, without torchrun."""
    return [sys.executable, "-m", "training.main", str(plan)]


def die_with_parent() -> None:
    """Be killed when the parent process ends, however it ends (Linux)."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # it ended between the two calls
        os.kill(os.getpid(), signal.SIGKILL)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: become torchrun."""
    parser = argparse.ArgumentParser(prog="python -m training.launch", description="train by a plan")
    parser.add_argument("--processes", type=int, default=2, help="ranks on this machine")
    parser.add_argument("plan", help="PLAN.json, see training.plan")
    options = parser.parse_args(arguments)
    die_with_parent()
    cores = len(os.sched_getaffinity(0))
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // options.processes)))
    from torch.distributed import run

    run.main(["--standalone", "--nproc-per-node", str(options.processes), "-m", "training.main", options.plan])


if __name__ == "__main__":
    main()
