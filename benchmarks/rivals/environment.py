"""The environment of libraries that the product does not depend on, and scripts that run in it.

A script reads one .npz file and writes one .npy file, so nothing of the product is imported there.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

from features.errors import GemlineError
from features.home import gemline_home

REQUIREMENTS = Path(__file__).parents[2] / "requirements" / "peers.txt"
SCRIPTS = Path(__file__).parent / "scripts"


@cache
def python() -> Path:
    """Interpreter of the environment, which is made when it is not there or its pinned list has changed.

    Raises:
        GemlineError: it cannot be made; ends with what the installer said.
    """
    folder = _folder()
    interpreter = folder / "bin" / "python"
    if not installed():
        _uv("venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
        _uv("pip", "sync", "--quiet", "--python", str(interpreter), str(REQUIREMENTS))
        _stamp().touch()
    return interpreter


def installed() -> bool:
    """Whether the environment is there and of the present list."""
    return _stamp().exists()


def _folder() -> Path:
    return gemline_home() / "peers_env"


def _stamp() -> Path:
    return _folder() / hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]


def run_script(name: str, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Run a script of `SCRIPTS` on named arrays.

    Returns:
        What it wrote.

    Raises:
        GemlineError: it failed; ends with the last lines of its error output.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.npz", Path(folder) / "out.npy"
        # numpy's own signature takes any names beside two of its own
        np.savez(source, **dict(arrays))  # type: ignore[arg-type]
        _call([str(python()), str(SCRIPTS / name), str(source), str(target)], cwd=folder)
        found: np.ndarray = np.load(target)
    return found


def threads() -> int:
    """Threads of a peer's training: `OMP_NUM_THREADS`, or every core that this process may use."""
    return int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0)))


def _uv(*arguments: str) -> None:
    _call([sys.executable, "-m", "uv", *arguments])


def _call(command: list[str], cwd: str | None = None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["OMP_NUM_THREADS"] = str(threads())
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise GemlineError(f"{' '.join(command[:3])} failed ({done.returncode}):\n{last}")
