"""Memory and computing of a command are those of all its processes."""

import os
import sys

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


def test_a_command_that_fails_keeps_its_code_and_its_words() -> None:
    tree = watched([sys.executable, "-c", "raise SystemExit('no')"], os.environ)
    assert (tree.code, tree.said) == (1, "no\n")
