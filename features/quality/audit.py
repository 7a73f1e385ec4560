"""The audit of staged days: a suite over their rows, another over their statistics; both kept as Data Docs."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from features.home import Home
from features.quality.day_audit import audit_days
from features.quality.monitors import monitor_of
from features.quality.outcome import Audited, Staged
from features.quality.past import IN_MEMORY_ROWS, Past
from features.quality.row_audit import audit_rows
from features.worlds.schema import World

if TYPE_CHECKING:
    from features.quality.profile import Profile

EMPTY_RULE = "expect_table_row_count_to_be_between"
EXACT_RULE = "expect_table_row_count_to_equal"


def audit(staged: Staged, world: World, home: Home, past: Past) -> dict[str, Audited]:
    """Audit every staged day.

    Args:
        staged: the days.
        world: gives the suite its domains and says which days are closed.
        home: where results go.
        past: published tables.

    Returns:
        day -> what was found, for each day of `staged.rows`.
    """
    found = {ds: _row_count(staged, world, ds) for ds in staged.rows}
    filled = [ds for ds, rows in staged.rows.items() if rows and not found[ds].rule]
    monitor = monitor_of(staged.spec, world)
    profiles: dict[str, Profile] = {}
    for batch in _batches({ds: staged.rows[ds] for ds in filled}):
        outcome, counted = audit_rows(staged, world, home, monitor, batch)
        profiles |= counted
        found |= {ds: found[ds] + outcome[ds] for ds in batch}
    for ds, profile in profiles.items():
        past.keep(staged.spec, monitor, ds, staged.content[ds], profile)
    if filled:
        outcome = audit_days(staged, world, home, past, monitor, profiles)
        found |= {ds: found[ds] + outcome[ds] for ds in filled}
    return found


def _row_count(staged: Staged, world: World, ds: str) -> Audited:
    rows, expected = staged.rows[ds], staged.expected.get(ds)
    if expected is not None and rows != expected:
        return Audited(EXACT_RULE, f"{rows} rows for {ds}, {expected} are due")
    if rows == 0 and expected is None and not staged.spec.may_be_empty and not world.is_closed(ds):
        return Audited(EMPTY_RULE, f"0 rows for {ds}; list it under closed_days if that is on purpose")
    return Audited()


def _batches(days: Mapping[str, int]) -> Iterator[list[str]]:
    batch: list[str] = []
    total = 0
    for ds, rows in days.items():
        if batch and total + rows > IN_MEMORY_ROWS:
            yield batch
            batch, total = [], 0
        batch.append(ds)
        total += rows
    if batch:
        yield batch
