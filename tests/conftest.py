"""Which tests stay together when several processes share the suite."""

from pathlib import Path

import pytest

TOGETHER = ("orchestration", "services")
"""Folders whose tests share stages that take minutes to make, or a server that they empty."""


# before xdist looks at the groups
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests by file, and those of some folders by folder; the largest groups start first."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=lambda item: _group(item) not in TOGETHER)


def _group(item: pytest.Item) -> str:
    place = item.path.relative_to(Path(__file__).parent)
    return place.parts[0] if place.parts[0] in TOGETHER else str(place)
