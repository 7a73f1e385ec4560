"""What an asset needs of the outside: its world, the world's home, and the tables in it, opened on first use."""

from functools import cache
from typing import TYPE_CHECKING

import dagster as dg

from features.home import Home
from features.worlds import World, load_world

if TYPE_CHECKING:
    from features.tables import Tables


class WorldResource(dg.ConfigurableResource):
    """The world that a code location serves."""

    world_name: str

    @property
    def world(self) -> World:
        """The validated world file."""
        return load_world(self.world_name)

    @property
    def home(self) -> Home:
        """The world's folder below `GEMLINE_HOME`."""
        return Home.of(self.world_name)

    def tables(self) -> "Tables":
        """The world's tables; the first call of a process starts Spark."""
        return _tables(self.world_name, self.home)


@cache
def _tables(world_name: str, home: Home) -> "Tables":
    from features.spark import session
    from features.tables import Tables

    return Tables(session(), load_world(world_name), home)
