"""What an audit reads beside the staged rows: published tables, and profiles of published days.

A profile is a function of a day's content and of what is watched, so it is kept under the hashes of both, below
`GEMLINE_HOME/<world>/quality/profiles`; one that is not there is made again from the published files.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from features.quality.monitors import Monitor
from features.quality.profile import Profile, profiles_of, profiles_on_spark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from features.tables.specs import TableSpec
    from features.tables.tables import Tables

IN_MEMORY_ROWS = 500_000
"""More rows of a day, or of days taken together, are left to Spark; validating few costs half a second too."""


class Past:
    """Published rows and profiles, as of now."""

    def __init__(self, tables: "Tables") -> None:
        """Nothing is read yet."""
        self._tables = tables

    def frame(self, table: str, days: Sequence[str] | None = None) -> "DataFrame | None":
        """Rows of all readable days, or of those among `days`; None when there is none."""
        readable = self._tables.readable_days(table)
        wanted = [ds for ds in readable if days is None or ds in days]
        return self._tables.read(table, wanted) if wanted else None

    def profiles(self, spec: "TableSpec", monitor: Monitor, days: Sequence[str]) -> dict[str, Profile]:
        """Profiles of those days that are readable, in date order."""
        published = {ds: gate for ds, gate in self._tables.ledger.published(spec.name).items() if ds in days}
        paths = {ds: self._path(spec, monitor, ds, gate.content_hash) for ds, gate in published.items()}
        found = {ds: Profile.from_json(path.read_text()) for ds, path in paths.items() if path.exists()}
        missing = {ds: gate.rows for ds, gate in published.items() if ds not in found}
        for ds, profile in self._counted(spec, monitor, missing).items():
            found[ds] = profile
            self.keep(spec, monitor, ds, published[ds].content_hash, profile)
        return dict(sorted(found.items()))

    def keep(self, spec: "TableSpec", monitor: Monitor, ds: str, content: str, profile: Profile) -> None:
        """Keep the profile of a day's content."""
        path = self._path(spec, monitor, ds, content)
        path.parent.mkdir(parents=True, exist_ok=True)
        staged = path.with_suffix(".tmp")
        staged.write_text(profile.to_json(), encoding="utf-8")
        staged.replace(path)

    def _path(self, spec: "TableSpec", monitor: Monitor, ds: str, content: str) -> Path:
        watched = hashlib.sha256(repr(monitor).encode()).hexdigest()[:8]
        folder = self._tables.home.root / "quality" / "profiles" / spec.name
        return folder / f"{ds}-{content}-{watched}.json"

    def _counted(self, spec: "TableSpec", monitor: Monitor, rows: Mapping[str, int]) -> dict[str, Profile]:
        found = {ds: Profile() for ds in rows}
        filled = [ds for ds, count in rows.items() if count]
        if not filled:
            return found
        if sum(rows.values()) > IN_MEMORY_ROWS:
            return found | profiles_on_spark(self._tables.read(spec.name, filled), spec.partition, monitor)
        files = [path for day in self._tables.files(spec.name, filled).values() for path in day.paths]
        return found | profiles_of(read_files(files, spec.partition), spec.partition, monitor)


def read_files(files: Sequence[str], partition: str) -> "pa.Table":
    """Rows of Parquet files of a table as one Arrow table, the day from the folders' names."""
    import pyarrow as pa
    import pyarrow.dataset as pads

    days = pads.partitioning(pa.schema([(partition, pa.string())]), flavor="hive")
    return pads.dataset(list(files), format="parquet", partitioning=days).to_table()
