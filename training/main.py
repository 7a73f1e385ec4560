"""torchrun's entry: `python -m training.main PLAN.json` in every process of a group, or alone.

Start several with `python -m training.launch`; this module adds nothing to `training.run.train` but the
process around it: it dies with its parent, joins and leaves the group, reports, and lets torchrun record what
went wrong.
"""

import sys
from pathlib import Path

from torch.distributed.elastic.multiprocessing.errors import record

from features.errors import GemlineError
from training.checkpoint import manifest_of
from training.compute import join, leave
from training.launch import die_with_parent
from training.plan import Plan
from training.quiet import quiet
from training.report import reporting
from training.run import train


def run(path: Path) -> Path:
    """Run the plan in this process of the group.

    Returns:
        The committed folder.

    Raises:
        GemlineError: also told to the report, since torchrun shows the user no more than an exit code.
    """
    compute = join()
    with quiet(), reporting(compute.rank) as report:
        try:
            folder = train(Plan.read(path), compute, report.say)
        except GemlineError as error:
            report.failed(str(error))
            raise
        if compute.rank == 0:
            report.done(folder, manifest_of(folder))
    leave(compute)
    return folder


@record
def main() -> None:
    """Entry point."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m training.main PLAN.json (several processes: python -m training.launch)")
    die_with_parent()
    run(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
