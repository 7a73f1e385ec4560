"""Local days: a partition is one day in the world's time zone, so it lasts 23, 24 or 25 hours.

Everything that turns an instant into a day or a day into instants goes through here; nothing else may add 24 hours.
"""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(instant: datetime) -> int:
    """Microseconds since 1970 of an aware instant, exactly (no floating point)."""
    return (instant - EPOCH) // timedelta(microseconds=1)


def micros_of(span: timedelta) -> int:
    """Microseconds of a duration."""
    return span // timedelta(microseconds=1)


def day_bounds(ds: str, timezone: str) -> tuple[datetime, datetime]:
    """First instant of local day `ds` and first instant of the next day, both as aware UTC datetimes."""
    zone = ZoneInfo(timezone)
    start = datetime.combine(date.fromisoformat(ds), datetime.min.time(), zone)
    following = datetime.combine(date.fromisoformat(ds) + timedelta(days=1), datetime.min.time(), zone)
    return start.astimezone(UTC), following.astimezone(UTC)


def day_end(ds: str, timezone: str) -> datetime:
    """First instant after local day `ds`, in UTC."""
    return day_bounds(ds, timezone)[1]


def day_of(instant: datetime, timezone: str) -> str:
    """Local day that holds an aware instant."""
    return instant.astimezone(ZoneInfo(timezone)).date().isoformat()


def shift(ds: str, days: int) -> str:
    """The calendar day `days` after `ds` (before it when negative)."""
    return (date.fromisoformat(ds) + timedelta(days=days)).isoformat()


def day_range(first: str, last: str) -> list[str]:
    """All calendar days from `first` to `last`, both included; empty when `last` is before `first`."""
    count = (date.fromisoformat(last) - date.fromisoformat(first)).days + 1
    return [shift(first, offset) for offset in range(count)]
