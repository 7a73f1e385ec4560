"""Which tests stay together when several processes share the suite (`pytest -n 2`)."""

import pytest
from xdist.scheduler import LoadScopeScheduling

TOGETHER = ("orchestration", "services")
"""Folders whose tests share stages that take minutes to make, or a server that they empty."""


class ByFile(LoadScopeScheduling):
    """Tests of one file go to one process, and so do those of one folder of `TOGETHER`."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


def group(nodeid: str) -> str:
    """What a test's identifier, `tests/FOLDER/.../FILE::NAME`, says of its company."""
    file = nodeid.split("::")[0]
    folder = file.split("/")[1]
    return folder if folder in TOGETHER else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile:
    """Take the place of xdist's `--dist`, whose groups pytest 9.2 does not know."""
    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The largest groups start first."""
    items.sort(key=lambda item: group(item.nodeid) not in TOGETHER)
