"""When the newest day is late: in a real world by noon of the day after; a replayed log has no clock to be late by."""

from datetime import timedelta

import dagster as dg

from features.worlds import World

DEADLINE = "0 12 * * *"
"""Local time; `daily_retrain` starts six hours before it."""


def freshness(world: World) -> dg.FreshnessPolicy | None:
    """Policy of what is ingested daily, shown and alerted on by Dagster."""
    if world.clock == "replay":
        return None
    return dg.FreshnessPolicy.cron(DEADLINE, lower_bound_delta=timedelta(hours=12), timezone=world.timezone)
