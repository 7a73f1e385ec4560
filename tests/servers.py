"""Servers that the lane `services` talks to, as fixtures for a conftest to import.

Each is named by an environment variable. Without it a Redis is started here if the machine has one to start; what is
absent then skips its tests and the summary says so. Where `GEMLINE_REQUIRE_SERVICES=1` (as in CI) it fails them, so the
lane is never green by not running.
"""

import os
from collections.abc import Iterator

import pytest
import redis

from benchmarks.online_store.redis_server import available, redis_server
from features.store.repo import ONLINE_SETTING


def _absent(variable: str, service: str) -> None:
    reason = f"{service} is absent: {variable} is not set"
    if os.environ.get("GEMLINE_REQUIRE_SERVICES") == "1":
        pytest.fail(f"{reason} and GEMLINE_REQUIRE_SERVICES=1 requires it", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """Address of a Redis database, `redis://host:port/N`; its contents may be erased.

    Processes that share the tests share a server too, so each has a database of its own.
    """
    address = os.environ.get("GEMLINE_REDIS_URL")
    if address:
        yield f"{address}/{os.environ.get('PYTEST_XDIST_WORKER', 'gw0').removeprefix('gw')}"
    elif available():
        with redis_server() as started:
            yield started
    else:
        _absent("GEMLINE_REDIS_URL", "Redis")


@pytest.fixture(scope="module", params=["sqlite", pytest.param("redis", marks=pytest.mark.services)])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Name of the engine that `GEMLINE_ONLINE_STORE` chooses for the module's tests; Redis starts empty."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "redis":
            address = request.getfixturevalue("redis_url")
            redis.Redis.from_url(address).flushdb()
            patch.setenv(ONLINE_SETTING, address)
        else:
            patch.delenv(ONLINE_SETTING, raising=False)
        yield request.param


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """Address of a PostgreSQL database, `postgresql://user@host:port/name`; its contents may be erased."""
    address = os.environ.get("GEMLINE_POSTGRES_URL")
    if not address:
        _absent("GEMLINE_POSTGRES_URL", "PostgreSQL")
    return str(address)
