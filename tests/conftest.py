"""The order of the tests where several processes share them."""

import pytest

FIRST = "tests/orchestration/test_assets.py"
"""It makes the stages that other files of its folder wait for."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Stages are made while the other processes test what needs none."""
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
