"""What the tables of a day say: verdicts of the gates, and a profile of every feature of its examples.

Spark reads the ledger and names the pinned files; the files themselves are read with pyarrow, a column at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from features.errors import GemlineError
from features.worlds import World

if TYPE_CHECKING:
    from features.tables import Tables

NOT_READ = "not read: this report was made without the tables"


@dataclass(frozen=True)
class GateFacts:
    """The last thing the ledger says of a table and day.

    Attributes:
        table: the table.
        verdict: passed, failed, waived or closed.
        rows: audited rows.
        rule: first broken rule, empty when none.
        sample: offending rows as text, or a person's reason for a waiver.
        content_hash: of the audited rows.
        readable: whether some content of the day may be read, be it an earlier one.
        quarantined: rows refused at ingest; None when rows of this table are never quarantined.
    """

    table: str
    verdict: str
    rows: int
    rule: str
    sample: str
    content_hash: str
    readable: bool
    quarantined: int | None


@dataclass(frozen=True)
class FeatureFacts:
    """One feature in the examples of a day.

    Attributes:
        name: its column.
        kind: kind of a dense feature, or the embedding table of a categorical one.
        dense: whether it is a number rather than an id.
        missing: share of rows without a value; None when there is no row or no such column.
        mean: of a dense feature; None when no row has a value.
        low: smallest value.
        high: largest value.
        distinct: ids of a categorical feature; None when not counted.
        note: why there are no numbers, empty when there are.
    """

    name: str
    kind: str
    dense: bool
    missing: float | None = None
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    distinct: int | None = None
    note: str = ""


@dataclass(frozen=True)
class DataFacts:
    """Gates and features of a day.

    Attributes:
        gates: newest verdict of each table that has one.
        silent: tables of which the ledger says nothing on that day.
        gates_note: why gates are not known, empty when they are.
        features: profile of each feature.
        examples: number of examples, None when they were not read.
        features_note: why features are not known, empty when they are.
    """

    gates: tuple[GateFacts, ...] = ()
    silent: tuple[str, ...] = ()
    gates_note: str = NOT_READ
    features: tuple[FeatureFacts, ...] = ()
    examples: int | None = None
    features_note: str = NOT_READ


def data_of(tables: "Tables", world: World, ds: str) -> DataFacts:
    """Gates and features of a day; what is closed is said, not raised."""
    from features.tables.specs import SPECS

    gates = _gates(tables, ds)
    silent = tuple(name for name in SPECS if name not in {gate.table for gate in gates})
    try:
        paths = tables.files("examples", [ds])[ds].paths
    except GemlineError as error:
        return DataFacts(gates, silent, "", features_note=str(error))
    rows, features = profile(paths, world)
    return DataFacts(gates, silent, "", features, rows, "")


def _gates(tables: "Tables", ds: str) -> tuple[GateFacts, ...]:
    from features.tables.specs import SPECS

    said = {gate.table: gate for gate in tables.ledger.rows() if gate.ds == ds}
    order = [name for name in SPECS if name in said] + sorted(said.keys() - SPECS.keys())
    refused = _quarantined(tables, ds)
    return tuple(
        GateFacts(
            table=name,
            verdict=str(said[name].verdict),
            rows=said[name].rows,
            rule=said[name].rule,
            sample=said[name].sample,
            content_hash=said[name].content_hash,
            readable=ds in tables.ledger.published(name),
            quarantined=refused.get(name),
        )
        for name in order
    )


def _quarantined(tables: "Tables", ds: str) -> dict[str, int]:
    """Table -> rows refused on the day, from the footers of the quarantine's files."""
    from pyarrow import parquet

    found = {}
    for folder in sorted(tables.home.tables.glob("quarantine_*")):
        uris = tables.spark.read.format("delta").load(str(folder)).inputFiles()
        paths = [path for path in (unquote(urlparse(uri).path) for uri in uris) if f"/ds={ds}/" in path]
        found[folder.name.removeprefix("quarantine_")] = sum(parquet.read_metadata(path).num_rows for path in paths)
    return found


def profile(paths: Sequence[str], world: World) -> tuple[int, tuple[FeatureFacts, ...]]:
    """Profile every feature of the world's schema.

    Args:
        paths: Parquet files of `examples`, possibly none.
        world: names the features.

    Returns:
        Number of rows, and one entry a feature: dense ones first, each group in schema order.
    """
    from pyarrow import dataset

    from features.schema_of import schema_of

    schema = schema_of(world)
    blank = [FeatureFacts(feature.name, feature.kind, True) for feature in schema.dense]
    blank += [FeatureFacts(feature.name, feature.table, False) for feature in schema.categorical]
    source = dataset.dataset(list(paths), format="parquet") if paths else None
    rows = source.count_rows() if source else 0
    return rows, tuple(_profile(source, feature, rows) for feature in blank)


def _profile(source: Any, feature: FeatureFacts, rows: int) -> FeatureFacts:
    import pyarrow as pa
    import pyarrow.compute as pc

    name, kind, dense = feature.name, feature.kind, feature.dense
    if not rows:
        return FeatureFacts(name, kind, dense, note="no rows")
    if name not in source.schema.names:
        return FeatureFacts(name, kind, dense, note="no such column in these examples")
    column = source.to_table(columns=[name]).column(name)
    # a NaN is as absent as a null: the transform gives both the missing indicator
    present = column.filter(pc.invert(pc.is_null(column, nan_is_null=dense)))
    missing = 1 - len(present) / rows
    if pa.types.is_list(column.type):
        return _profile_of_lists(feature, present, rows)
    if not dense:
        return FeatureFacts(name, kind, dense, missing, distinct=pc.count_distinct(present).as_py())
    if not len(present):
        return FeatureFacts(name, kind, dense, missing, note="no value in any row")
    ends = pc.min_max(present).as_py()
    return FeatureFacts(name, kind, dense, missing, pc.mean(present).as_py(), ends["min"], ends["max"])


def _profile_of_lists(feature: FeatureFacts, present: Any, rows: int) -> FeatureFacts:
    """Of a multi-valued feature: an empty list is as absent as none, and values are counted one by one."""
    import pyarrow.compute as pc

    held = present.filter(pc.greater(pc.list_value_length(present), 0))
    distinct = pc.count_distinct(pc.list_flatten(held)).as_py()
    return FeatureFacts(feature.name, feature.kind, False, 1 - len(held) / rows, distinct=distinct)
