"""Which raw rows are good, what they mean, and by which rule the others are refused."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from features.days import day_bounds
from features.instants import instant, local_day
from features.sources.canonical import bag, columns_of
from features.sources.files.options import TIMES, Mapping, Options
from features.sources.files.values import ids_of, number_of, time_of, vector_of
from features.sources.ids import filled, id64
from features.worlds.schema import World

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TEXTS = ("surface", "event_type", "objective", "format")
KEYS = {
    "impressions": ("ad_id", "request_ts"),
    "outcomes": ("ad_id", "event_ts"),
    "events": ("user_id", "ad_id", "event_ts"),
}
CLOCKS = {"impressions": "request_ts", "outcomes": "event_ts", "events": "event_ts"}


@dataclass(frozen=True)
class Classified:
    """Rows of one table, with `ds` (null without a readable time) and `_rule` (null: the row is good).

    Attributes:
        table: canonical table.
        frame: the rows, with `_row`, `_source` and `_cut` (what a good row loses by a rule, or null).
    """

    table: str
    frame: "DataFrame"

    def good(self) -> "DataFrame":
        """Rows that no rule refuses."""
        return self.frame.where("_rule is null").drop("_rule", "_cut", "_row", "_source")

    def refused(self, days: Sequence[str]) -> "DataFrame":
        """Rows refused or cut on the given days, as `REFUSED_SCHEMA`."""
        ds = F.coalesce(F.col("ds"), F.lit(max(days)))
        frame = self.frame.withColumns({"ds": ds, "_rule": F.coalesce("_rule", "_cut")})
        return (
            frame.where("_rule is not null")
            .where(F.col("ds").isin(list(days)))
            .select(
                "ds",
                F.lit(self.table).alias("table"),
                F.col("_rule").alias("rule"),
                F.col("_source").alias("source"),
                F.col("_row").alias("row"),
            )
        )


def classified(texts: "Sequence[tuple[Mapping, DataFrame]]", table: str, world: World, options: Options) -> Classified:
    """Parse text columns and apply the rules.

    Args:
        texts: the table's mappings and their rows, as `shaping.shaped` gives them.
        table: canonical table.
        world: zone, surfaces, event types.
        options: how times are written.
    """
    parts = [_parsed_part(raw, mapping, table, world, options) for mapping, raw in texts]
    parsed = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
    faults = [name for name in parsed.columns if name.startswith("_fault_")]
    parsed = parsed.withColumns({name: F.coalesce(name, F.lit(False)) for name in faults} or {"_row": F.col("_row")})
    if table == "impressions":
        parsed = _with_keys(parsed, world)
    elif table in ("users", "ads"):
        parsed = _with_known_from(parsed, world)
    parsed = parsed.withColumn("ds", _day(parsed, table, world)).withColumn("_rule", _rule(parsed, table, world))
    if table in ("impressions", "users", "ads"):
        parsed = _without_repeats(parsed, table)
    parsed = parsed.withColumn("_cut", _cut(parsed, world))
    return Classified(table, parsed.drop("_fault", *(name for name in parsed.columns if name.startswith("_fault_"))))


def _kinds(table: str, world: World) -> dict[str, str]:
    return columns_of(table, world) | dict.fromkeys(("arrival_ts", "known_from"), "timestamp")


def _parsed_part(raw: "DataFrame", mapping: Mapping, table: str, world: World, options: Options) -> "DataFrame":
    """A mapping's values and, for times, numbers and lists, `_fault_<name>`: there was text, and it did not parse."""
    kinds = _kinds(table, world)
    names = [name for name in raw.columns if not name.startswith("_")]
    values = {name: _parse(name, kinds[name], mapping, world, options) for name in names}
    faults = {
        f"_fault_{name}": filled(F.col(name)).isNotNull() & values[name].isNull()
        for name in names
        if kinds[name] not in ("bigint", "string")
    }
    columns = (column.alias(name) for name, column in (values | faults).items())
    return raw.select(*columns, "_row", "_source", "_fault")


def _parse(name: str, kind: str, mapping: Mapping, world: World, options: Options) -> "Column":
    text = F.col(name)
    if kind == "timestamp":
        zone = world.timezone if options.naive_times == "local" else "UTC"
        return time_of(text, options.spelling(mapping, name), zone)
    if kind == "bigint":
        return id64(text)
    if kind == "array<bigint>":
        return ids_of(text, mapping.separator)
    if kind == "array<float>":
        return vector_of(text, world.vectors[name], mapping.separator)
    return filled(text) if kind == "string" else number_of(text, kind)


def _with_keys(frame: "DataFrame", world: World) -> "DataFrame":
    """Request and impression ids where the log has none."""
    have = set(frame.columns)
    missing = {"request_id": "bigint", "impression_id": "bigint", "user_id": "bigint", "position": "int"}
    frame = frame.withColumns(
        {name: F.lit(None).cast(kind) for name, kind in missing.items() if name not in have}
        or {"ad_id": F.col("ad_id")}
    )
    if "surface" not in have:
        frame = frame.withColumn("surface", F.lit(world.surface_names[0]))
    request = F.coalesce("request_id", F.xxhash64("user_id", F.unix_micros("request_ts")))
    frame = frame.withColumn("request_id", request)
    own = F.xxhash64("request_id", "ad_id", "position")
    return frame.withColumn("impression_id", F.coalesce("impression_id", own))


def _with_known_from(frame: "DataFrame", world: World) -> "DataFrame":
    """Attributes without a time are known from the world's first day on."""
    start = instant(day_bounds(world.first_day, world.timezone)[0])
    if "known_from" not in frame.columns:
        frame = frame.withColumns({"known_from": start, "_fault_known_from": F.lit(False)})
    known = F.when(~F.col("_fault_known_from"), F.coalesce(F.col("known_from"), start))
    return frame.withColumns({"event_timestamp": known, "available_ts": known}).drop("known_from")


def _day(frame: "DataFrame", table: str, world: World) -> "Column":
    if table == "impressions":
        return local_day(F.col("request_ts"), world.timezone)
    moment = F.col("event_timestamp" if table in ("users", "ads") else "event_ts")
    if "arrival_ts" in frame.columns:
        # nothing arrives before it happens, whatever a clock says
        arrived = F.greatest(moment, F.col("arrival_ts"))
        moment = F.when(moment.isNotNull() & ~F.col("_fault_arrival_ts"), arrived)
    return F.when(moment.isNotNull(), F.greatest(local_day(moment, world.timezone), F.lit(world.first_day)))


def _rule(frame: "DataFrame", table: str, world: World) -> "Column":
    """Name of the first rule that refuses a row."""
    rules = [F.col("_fault")]
    for name in frame.columns:
        if name.startswith("_fault_"):
            column = name.removeprefix("_fault_")
            rules.append(F.when(F.col(name), F.lit(f"{column} is no {_what(column, world)}")))
    for key in KEYS.get(table, (f"{table[:-1]}_id",)):
        rules.append(F.when(F.col(key).isNull(), F.lit(f"no {key}")))
    domains = {"surface": world.surface_names, "event_type": world.event_types}
    strict = {"impressions": ("surface",), "outcomes": ("event_type",), "events": ("event_type",)}
    for name in strict.get(table, ()):
        known = F.coalesce(F.col(name).isin(list(domains[name])), F.lit(False))
        rules.append(F.when(~known, F.lit(f"unknown {name}")))
    return F.coalesce(*rules)


def _what(column: str, world: World) -> str:
    if column in world.vectors:
        return f"list of {world.vectors[column]} finite numbers"
    return "time" if column in TIMES else "list" if column in world.bags else "number"


def _cut(frame: "DataFrame", world: World) -> "Column":
    """Name of the first rule by which a row keeps only some of its values."""
    cuts = [
        F.when(F.size(bag(F.col(name))) > most, F.lit(f"{name} holds more than {most} values: the first were kept"))
        for name, most in world.bags.items()
        if name in frame.columns
    ]
    return F.coalesce(*cuts, F.lit(None).cast("string"))


def _without_repeats(frame: "DataFrame", table: str) -> "DataFrame":
    """Of rows with one key, the first by time (then by content) stays; the others are refused."""
    key = ["impression_id"] if table == "impressions" else [f"{table[:-1]}_id", "event_timestamp"]
    good = F.col("_rule").isNull()
    order = Window.partitionBy(*key, good).orderBy(
        *(["request_ts"] if table == "impressions" else []), "_row", "_source"
    )
    place = F.row_number().over(order)
    repeated = F.when(good & (F.col("_place") > 1), F.lit(f"repeated {' and '.join(key)}"))
    return frame.withColumn("_place", place).withColumn("_rule", F.coalesce("_rule", repeated)).drop("_place")
