"""From raw rows to rows of a canonical table, still as text: joins, conditions, slates, labels, values written anew.

The result has the mapped canonical columns as text, `_row` (the raw columns as JSON), `_source` (file name) and
`_fault` (the rule that a row breaks already here, or null).
"""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from features.sources.files.heads import Group, check_columns, located, raw_columns
from features.sources.files.options import PLACE, REQUIRED, TIMES, Join, Label, Mapping, Options, place
from features.sources.files.reading import quoted, read_text
from features.sources.files.values import items, number_of, truth_of
from features.sources.ids import filled
from features.worlds.schema import World

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MALFORMED = "malformed line"


def files_of(world: World, options: Options, table: str, mapping: Mapping) -> list[Group]:
    """A mapping's own files, every column that it reads checked; those of its joins too.

    Raises:
        WorldError: names the key, or the file and column.
    """
    where = f"world {world.name}: {place(options, table, mapping)}"
    columns = raw_columns(mapping)
    groups = located(options.path, mapping, _flat(columns), where)
    required = {f"columns.{name}" for name in REQUIRED[table]} | {key for key in columns if key.startswith("join")}
    check_columns(groups, columns, required, where)
    for at, join in enumerate(mapping.join):
        _joined_files(options, join, f"{where}.join.{at}")
    return groups


def shaped(
    spark: "SparkSession", world: World, options: Options, table: str, mapping: Mapping, most: int | None = None
) -> "DataFrame":
    """Rows of a mapping, as the module says.

    Args:
        spark: session.
        world: for errors.
        options: folder of the files.
        table: canonical table.
        mapping: one of the table's.
        most: rows of its files at most.

    Raises:
        WorldError: as `files_of`.
    """
    groups = files_of(world, options, table, mapping)
    names = _flat(raw_columns(mapping))
    frame = read_text(spark, groups, mapping, sorted(names), most)
    frame = frame.withColumn("_fault", F.when(F.col("_line").isNotNull(), F.lit(MALFORMED)))
    frame = frame.withColumns({name: F.lit(value) for name, value in mapping.constants.items()})
    lost = []
    for at, join in enumerate(mapping.join):
        where = f"world {world.name}: {place(options, table, mapping)}.join.{at}"
        frame, repeated = _joined(spark, frame, options, join, where)
        lost.append(repeated)
    frame = _exploded(_where(frame, mapping), mapping)
    frame = frame.withColumn("_row", _row(frame))
    frame = _labelled(frame, mapping) if mapping.labels else frame
    shape = frame.select(*_canonical(frame, mapping), "_row", "_source", "_fault")
    for repeated in lost:
        shape = shape.unionByName(repeated, allowMissingColumns=True)
    return shape


def _flat(columns: dict[str, tuple[str, ...]]) -> set[str]:
    return {raw for raws in columns.values() for raw in raws}


def _row(frame: "DataFrame") -> "Column":
    own = [quoted(name) for name in frame.columns if not name.startswith("_")]
    line = F.to_json(F.struct(F.col("_line").alias("line")))
    return F.when(F.col("_line").isNotNull(), line).otherwise(F.to_json(F.struct(*own)))


# ---- joins


def _joined_files(options: Options, join: Join, where: str) -> list[Group]:
    columns = {"by": tuple(join.by.values())} | {f"columns.{name}": (raw,) for name, raw in join.columns.items()}
    groups = located(options.path, join, _flat(columns), where)
    check_columns(groups, columns, {"by"}, where)
    return groups


def _joined(
    spark: "SparkSession", frame: "DataFrame", options: Options, join: Join, where: str
) -> tuple["DataFrame", "DataFrame"]:
    """Rows with the columns of their partner; and the partners refused: one key's rows beyond the first by content."""
    groups = _joined_files(options, join, where)
    names = sorted({*join.by.values(), *join.columns.values()})
    right = read_text(spark, groups, join, names)
    keys = {f"_key_{at}": filled(F.col(quoted(raw))) for at, raw in enumerate(join.by.values())}
    right = right.withColumn("_row", _row(right)).withColumns(keys)
    order = Window.partitionBy(*keys).orderBy("_row", "_source")
    right = right.withColumn("_place", F.row_number().over(order))
    keyed = F.col("_line").isNull() & ~F.greatest(*(F.col(key).isNull() for key in keys), F.lit(False))
    fault = F.when(F.col("_line").isNotNull(), F.lit(MALFORMED)).when(
        keyed & (F.col("_place") > 1), F.lit(f"repeated {' and '.join(join.by.values())} in a joined file")
    )
    refused = right.withColumn("_fault", fault).where("_fault is not null").select("_row", "_source", "_fault")
    first = right.where(keyed & (F.col("_place") == 1)).select(
        *keys, *(F.col(quoted(raw)).alias(name) for name, raw in join.columns.items())
    )
    own = {f"_key_{at}": filled(F.col(quoted(raw))) for at, raw in enumerate(join.by)}
    return frame.withColumns(own).join(first, list(keys), "left").drop(*keys), refused


# ---- conditions and slates


def _where(frame: "DataFrame", mapping: Mapping) -> "DataFrame":
    """Rows of this table; a line that could not be split may be one."""
    for raw, values in mapping.where.items():
        frame = frame.where(F.col("_fault").isNotNull() | filled(F.col(quoted(raw))).isin(*values))
    return frame


def _exploded(frame: "DataFrame", mapping: Mapping) -> "DataFrame":
    """A row for each item of a slate; a row whose lists are none, or differ in length, stays one and is refused."""
    if not mapping.slate:
        return frame
    lists = {raw: items(F.col(quoted(raw)), mapping.separator) for raw in mapping.slate}
    first, *others = (F.coalesce(F.size(found), F.lit(-1)) for found in lists.values())
    unlike = F.greatest(*(size != first for size in others), F.lit(False), F.lit(False)) | (first < 1)
    what = " and ".join(mapping.slate)
    rule = f"{what} are no lists of one length" if others else f"{what} is no list, or empty"
    frame = frame.withColumn("_fault", F.coalesce("_fault", F.when(unlike, F.lit(rule))))
    items_of = f"array<struct<{', '.join(f'_{at}: string' for at in range(len(lists)))}>>"
    # a refused row keeps its text as it stands
    whole = F.array(F.struct(*(F.col(quoted(raw)) for raw in lists)))
    picked = F.when(F.col("_fault").isNull(), F.arrays_zip(*lists.values()).cast(items_of)).otherwise(
        whole.cast(items_of)
    )
    rest = [quoted(name) for name in frame.columns if name not in lists]
    out = frame.select(*rest, F.posexplode(picked).alias("_place", "_item"))
    parts = {raw: F.col(f"_item._{at}") for at, raw in enumerate(lists)}
    return out.withColumns(parts | {PLACE: (F.col("_place") + 1).cast("string")}).drop("_place", "_item")


# ---- labels


def _labelled(frame: "DataFrame", mapping: Mapping) -> "DataFrame":
    """A row for each label that is a yes, or that cannot be read; `event_type` and `event_ts` say which and when."""
    default = _text(frame, "event_ts", mapping)
    found = [_occurrence(name, label, mapping, default) for name, label in mapping.labels.items()]
    nothing = F.lit(None).cast("string")
    broken = F.when(F.col("_fault").isNotNull(), _struct(nothing, nothing, F.col("_fault")))
    good = [F.when(F.col("_fault").isNull(), entry) for entry in found]
    frame = frame.withColumn("_label", F.explode(F.array_compact(F.array(broken, *good))))
    return frame.withColumns(
        {"_event_type": F.col("_label.type"), "_event_ts": F.col("_label.at"), "_fault": F.col("_label.fault")}
    )


def _occurrence(name: str, label: Label, mapping: Mapping, default: "Column") -> "Column":
    at = F.col(quoted(label.at)) if label.at is not None else default
    if label.column is None:
        yes, what = filled(at).isNotNull(), "time"
    else:
        yes, what = _yes(label, label.column, mapping)
    fault = F.when(yes.isNull(), F.lit(f"{label.column or label.at} is no {what}"))
    return F.when(F.coalesce(yes, F.lit(True)), _struct(F.lit(name), at, fault))


def _yes(label: Label, column: str, mapping: Mapping) -> tuple["Column", str]:
    """Whether a label is a yes (null: it cannot be read), and what the column should hold."""
    text = F.col(quoted(column))
    blank = filled(text).isNull()
    if label.at_least is not None:
        return F.when(blank, F.lit(False)).otherwise(number_of(text, "double") >= F.lit(label.at_least)), "number"
    if label.holds is not None:
        wanted = filled(F.col(quoted(label.holds)))
        held = F.exists(items(text, mapping.separator), lambda item: F.coalesce(filled(item) == wanted, F.lit(False)))
        return F.when(blank, F.lit(False)).otherwise(held), "list"
    return truth_of(text), "yes or no"


def _struct(kind: "Column", at: "Column", fault: "Column") -> "Column":
    return F.struct(kind.alias("type"), at.cast("string").alias("at"), fault.cast("string").alias("fault"))


# ---- canonical names


def _canonical(frame: "DataFrame", mapping: Mapping) -> list["Column"]:
    texts = {name: _text(frame, name, mapping) for name in mapping.columns}
    if mapping.labels:
        texts |= {"event_type": F.col("_event_type"), "event_ts": F.col("_event_ts")}
    elif mapping.slate and "request_ts" in texts and "position" not in texts:
        texts["position"] = F.col(PLACE)
    return [_recoded(text, mapping.recode.get(name, {})).alias(name) for name, text in texts.items()]


def _text(frame: "DataFrame", name: str, mapping: Mapping) -> "Column":
    """The text of a canonical column; of several raw columns, null where one is blank."""
    raws: tuple[str, ...] = mapping.columns.get(name, ())
    if not raws:
        return F.lit(None).cast("string")
    if len(raws) == 1:
        return F.col(quoted(raws[0]))
    parts = [filled(F.col(quoted(raw))) for raw in raws]
    joiner = " " if name in TIMES else "/"
    return F.when(~F.greatest(*(part.isNull() for part in parts)), F.concat_ws(joiner, *parts))


def _recoded(text: "Column", values: dict[str, str]) -> "Column":
    if not values:
        return text
    pairs = [F.lit(part) for pair in values.items() for part in pair]
    return F.coalesce(F.try_element_at(F.create_map(*pairs), filled(text)), text)
