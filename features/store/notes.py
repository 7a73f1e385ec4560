"""What people should know of each feature: a sentence and a unit, for the registry, `gemline features` and the docs."""

from collections.abc import Iterator
from dataclasses import dataclass

from features.schema_of import AD_MEASURES, USER_MEASURES, attribute_types
from features.worlds.schema import World

MEASURES = {
    "events": ("Events", "events"),
    "requests": ("Different requests among the events", "requests"),
    "value": ("Sum of the values of the events", "value of the log"),
    "users": ("Different users among the events", "users"),
    "share": ("Share of all ads' events", "share"),
}
AGES = {
    "days_since_last": "Days from the newest event to the end of the day.",
    "span_days": "Days from the oldest known event to the end of the day.",
}
ARRAYS = {
    "event_us": ("Instant of each event, oldest first.", "microseconds since 1970, UTC"),
    "event_type": ("Type of each event.", "xxhash64 of its name"),
}
TYPES = {
    "bigint": ("", "id; text is xxhash64"),
    "array<bigint>": (", all its different values", "ids; text is xxhash64"),
    "array<float>": (", a vector made elsewhere", "numbers"),
}


@dataclass(frozen=True)
class Note:
    """What people should know of one feature."""

    description: str
    unit: str


def notes_of(world: World) -> dict[str, Note]:
    """Column -> note, of all columns of the views of a world."""
    return dict(_statistics(world)) | dict(_attributes(world)) | dict(_arrays(world))


def _statistics(world: World) -> Iterator[tuple[str, Note]]:
    for side, measures in (("user", USER_MEASURES), ("ad", AD_MEASURES)):
        for measure, _ in measures:
            what, unit = MEASURES[measure]
            for days in world.statistics.windows:
                last = "of the day" if days == 1 else f"of the last {days} days"
                yield f"{side}_{measure}_{days}d", Note(f"{what} {last}, up to its end.", unit)
        for age, text in AGES.items():
            yield f"{side}_{age}", Note(text, "days")


def _attributes(world: World) -> Iterator[tuple[str, Note]]:
    for table, entity in (("users", world.users), ("ads", world.ads)):
        for name, kind in attribute_types(world, table).items():
            more, unit = TYPES[kind]
            yield name, Note(entity.descriptions.get(name) or f"`{name}` as the log says it{more}.", unit)


def _arrays(world: World) -> Iterator[tuple[str, Note]]:
    yield from ((name, Note(*said)) for name, said in ARRAYS.items())
    for field in world.history.fields:
        yield field.name, Note(f"`{field.name}` of each event, in the order of event_us.", "id; a hole where missing")
