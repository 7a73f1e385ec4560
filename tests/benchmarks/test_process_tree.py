"""Memory and computing of a command are those of all its processes."""

import os
import sys

import pytest

from benchmarks.process_tree import watched

MIB = 1 << 20
HOLD = """
import time
held = b"x" * (150 << 20)
while time.process_time() < 1:
    pass
"""


def test_a_grandchilds_memory_and_computing_count() -> None:
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLD!r}], check=True); print('done')"
    alone = watched([sys.executable, "-c", "import time; time.sleep(1)"], os.environ)
    tree = watched([sys.executable, "-c", parent], os.environ)
    assert (tree.code, tree.said) == (0, "done\n")
    assert 150 * MIB < tree.peak - alone.peak < 300 * MIB
    assert alone.cpu_seconds < 0.5 < tree.cpu_seconds < tree.seconds + 0.5


FORK = """
import os, time
held = b"x" * (150 << 20)
child = os.fork()
if child == 0:
    own = b"y" * (OWN << 20) if OWN else None
    time.sleep(1.5)
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.parametrize("own", [0, 100])
def test_the_image_of_a_parent_counts_once_and_what_a_child_adds_counts(own: int) -> None:
    alone = watched([sys.executable, "-c", "import time; time.sleep(1)"], os.environ)
    tree = watched([sys.executable, "-c", FORK.replace("OWN", str(own))], os.environ)
    assert tree.code == 0
    # a child that has memory of its own counts with what it shares as well
    most = 150 + 40 if own == 0 else 2 * 150 + own + 60
    assert (150 + own) * MIB <= tree.peak - alone.peak + 10 * MIB < most * MIB


def test_a_command_that_fails_keeps_its_code_and_its_words() -> None:
    tree = watched([sys.executable, "-c", "raise SystemExit('no')"], os.environ)
    assert (tree.code, tree.said) == (1, "no\n")
