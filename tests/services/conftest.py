"""The servers of this lane; see `tests.servers`."""

from tests.servers import postgres_url, redis_url

__all__ = ["postgres_url", "redis_url"]
