"""The daily retrain: yesterday in a real world; in a replay world the day after the newest ingested one, one a tick."""

from datetime import UTC, datetime

import dagster as dg

from features.days import day_of, shift
from features.worlds import World
from orchestration.jobs import first_output


def daily_retrain(world: World) -> dg.ScheduleDefinition:
    """Schedule of `daily_job`, off until it is switched on."""

    @dg.schedule(
        name="daily_retrain",
        job_name="daily_job",
        cron_schedule="0 6 * * *",
        execution_timezone=world.timezone,
        description="Ingests the next day, trains on the day before it, and releases what the gate accepts.",
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        day = retrain_day(world, context.instance, context.scheduled_execution_time or datetime.now(UTC))
        if world.last_day is not None and day > world.last_day:
            return dg.SkipReason(f"the log of {world.name} ends with {world.last_day}")
        # the run key makes a tick that finds the same day skip it: a failed day waits for a person
        return dg.RunRequest(run_key=day, partition_key=day)

    return schedule


def retrain_day(world: World, instance: dg.DagsterInstance, now: datetime) -> str:
    """The day that a tick at `now` asks for."""
    if world.clock == "real":
        return shift(day_of(now, world.timezone), -1)
    return next_replay_day(instance, world)


def next_replay_day(instance: dg.DagsterInstance, world: World) -> str:
    """The day after the newest ingested one; the world's first day when there is none."""
    done = instance.get_materialized_partitions(first_output(world))
    return shift(max(done), 1) if done else world.first_day
