"""Servers that the lane `services` talks to.

Each is named by an environment variable. At home an absent one skips its tests and the summary says so;
where `GEMLINE_REQUIRE_SERVICES=1` (as in CI) it fails them, so the lane is never green by not running.
"""

import os

import pytest


def _address(variable: str, service: str) -> str:
    address = os.environ.get(variable)
    if address:
        return address
    reason = f"{service} is absent: {variable} is not set"
    if os.environ.get("GEMLINE_REQUIRE_SERVICES") == "1":
        pytest.fail(f"{reason} and GEMLINE_REQUIRE_SERVICES=1 requires it", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def redis_url() -> str:
    """Address of a Redis server, `redis://host:port`; its contents may be erased."""
    return _address("GEMLINE_REDIS_URL", "Redis")


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """Address of a PostgreSQL database, `postgresql://user@host:port/name`; its contents may be erased."""
    return _address("GEMLINE_POSTGRES_URL", "PostgreSQL")
