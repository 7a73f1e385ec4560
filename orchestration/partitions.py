"""The one partition axis of a world: its local days."""

import dagster as dg

from features.days import shift
from features.worlds import World


def day_axis(world: World) -> dg.DailyPartitionsDefinition:
    """Daily partitions in the world's zone; a replay world ends with its last day."""
    end = shift(world.last_day, 1) if world.last_day else None
    return dg.DailyPartitionsDefinition(start_date=world.first_day, end_date=end, timezone=world.timezone)


def history_before(world: World) -> dg.TimeWindowPartitionMapping | dg.IdentityPartitionMapping:
    """The days' histories that requests see: those of the day before, or of the day itself where the world says so."""
    return dg.IdentityPartitionMapping() if world.history.as_of == "request" else day_before()


def day_before() -> dg.TimeWindowPartitionMapping:
    """What the first requests of a day can see: the day before, which the first day of all lacks."""
    return dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1, allow_nonexistent_upstream_partitions=True)
