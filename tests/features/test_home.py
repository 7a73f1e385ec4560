"""One writer a world: a second process waits, then names the holder."""

import subprocess
import sys
from pathlib import Path

import pytest

from features.errors import Busy
from features.home import Home

HOLD = """
import sys, time
from pathlib import Path
from features.home import Home
with Home(Path(sys.argv[1])).writing("a long publish"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_writer_names_the_holder(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == "held"
        with pytest.raises(Busy, match=rf"process {holder.pid} \(a long publish\)"), Home(tmp_path).writing("me", 0.2):
            pass
    finally:
        holder.kill()
        holder.wait()
    with Home(tmp_path).writing("me", 5.0):
        pass


def test_the_lock_is_reentrant_within_a_process(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with home.writing("outer", 1.0), home.writing("inner", 1.0):
        pass
