"""The online store on both of its engines: what is tested of one is tested of the other."""

from tests.servers import engine, redis_url

__all__ = ["engine", "redis_url"]
