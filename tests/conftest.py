"""Which tests stay together when several processes share the suite."""

from pathlib import Path

import pytest

TOGETHER = ("orchestration", "services")
"""Folders whose tests share stages that take minutes to make, or a server that they empty."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests by file, and those of some folders by folder."""
    for item in items:
        place = item.path.relative_to(Path(__file__).parent)
        group = place.parts[0] if place.parts[0] in TOGETHER else str(place)
        item.add_marker(pytest.mark.xdist_group(group))
