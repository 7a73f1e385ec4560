"""The audit of rows: a table's suite over the days of a batch, on pandas or on Spark.

Days are validated together; a batch that is not green is halved until each fault has its day. That is sound
because a row rule holds for every row (`suites.py` refuses rules about shares) or, like uniqueness, includes the
day, so a day's outcome never depends on the days beside it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from features.exact_frames import nullable_integers
from features.home import Home
from features.quality.monitors import Monitor
from features.quality.outcome import Audited, Staged
from features.quality.past import IN_MEMORY_ROWS, read_files
from features.quality.profile import Profile, profiles_of, profiles_on_spark
from features.quality.suites import columns_of, suite_of
from features.quality.validation import Validated, validate
from features.worlds.schema import World

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

SAMPLE_ROWS = 3


def audit_rows(
    staged: Staged, world: World, home: Home, monitor: Monitor, batch: list[str]
) -> tuple[dict[str, Audited], dict[str, Profile]]:
    """Outcome and profile of each day of a batch.

    Args:
        staged: the days' files and frame.
        world: gives the suite its domains.
        home: where results go.
        monitor: what profiles look at.
        batch: days, none of them empty.
    """
    spec = staged.spec
    if sum(staged.rows[ds] for ds in batch) > IN_MEMORY_ROWS:
        frame = staged.frame.where(staged.frame[spec.partition].isin(batch)).persist()
        try:
            counted = profiles_on_spark(frame, spec.partition, monitor)
            return _halved(staged, world, home, batch, frame), counted
        finally:
            frame.unpersist()
    folders = [staged.folder / f"{spec.partition}={ds}" for ds in batch]
    rows = read_files([str(path) for folder in folders for path in sorted(folder.glob("*.parquet"))], spec.partition)
    # histories are arrays that no rule names, and ten times as large in pandas
    named = {spec.partition, *spec.keys, *columns_of(suite_of(spec, world))}
    # nullable types: 64-bit ids stay exact beside a null
    frame = rows.select([name for name in rows.column_names if name in named]).to_pandas(
        types_mapper=_nullable_types().get
    )
    return _halved(staged, world, home, batch, frame), profiles_of(rows, spec.partition, monitor)


def _nullable_types() -> dict[Any, Any]:
    import pandas as pd
    import pyarrow as pa

    return {**nullable_integers(), pa.string(): pd.StringDtype()}


def _halved(
    staged: Staged, world: World, home: Home, batch: list[str], frame: "pd.DataFrame | DataFrame"
) -> dict[str, Audited]:
    """Outcome of each day; a batch in which a rule is broken is halved until its days are known."""
    spec = staged.spec
    keys = [spec.partition, *(key for key in spec.keys if key != spec.partition)]
    days = {ds: staged.content[ds] for ds in batch}
    validated = validate(home, world, f"{spec.name}.rows", suite_of(spec, world), frame, days, keys)
    if validated.result.success:
        return dict.fromkeys(batch, Audited(pages=(validated.page,)))
    if len(batch) == 1:
        return {batch[0]: broken_rows(validated)}
    middle = len(batch) // 2
    found: dict[str, Audited] = {}
    for half in (batch[:middle], batch[middle:]):
        found |= _halved(staged, world, home, half, frame[frame[spec.partition].isin(half)])
    return found


def broken_rows(validated: Validated) -> Audited:
    """What a validation found: the first broken critical rule with its rows, and broken rules that only warn."""
    found = Audited(pages=(validated.page,))
    for entry in validated.result.results:
        config = entry.expectation_config
        if entry.success or config is None:
            continue
        text = _sample(dict(config.kwargs) | dict(entry.result), entry.exception_info)
        broken = Audited(str(config.type), text)
        found = found + (broken if config.severity == "critical" else Audited(warnings=(f"{config.type}: {text}",)))
    return found


def _sample(details: Mapping[str, Any], raised: Any) -> str:
    """Offending values, and the keys of their rows."""
    columns = details.get("column") or details.get("column_list") or ""
    values = details.get("partial_unexpected_list")
    if not values:
        return f"column {columns}: {str(raised)[:300]}"
    rows = [
        " ".join(f"{name}={value}" for name, value in row.items() if name != columns)
        for row in (details.get("partial_unexpected_index_list") or [])[:SAMPLE_ROWS]
    ]
    where = f" (rows {'; '.join(rows)})" if rows else ""
    return f"column {columns}: {', '.join(map(str, values[:SAMPLE_ROWS]))}{where}"
