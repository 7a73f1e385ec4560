"""Folders that take minutes to make, made once a run however many processes share the tests."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """The folder that `make` fills: by the process that asks first, while the others wait for it.

    What a `make` that failed has left is removed before the next process tries.
    """
    base = factory.getbasetemp()
    # a process of pytest-xdist has a folder of its own in that of the run
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, made = base / name, base / f"{name}.made"
    with FileLock(base / f"{name}.lock"):
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            made.touch()
    return folder
