"""What a day's rows look like, in counts: rows, nulls, distributions, shares, first and last stamp.

Counts of parts add up to those of the whole, so one function serves small days in memory, large ones on Spark's
workers, and several days taken together. A number falls into a bin of half an octave, so bins need no look at
the data; a text or an id is a bin of its own, until there are too many of them to compare.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from features.quality.monitors import Monitor

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

MOST_VALUES = 64
"""A feature with more different values on a day is not compared."""
OCTAVES = 2100
"""Moves the exponents of all doubles above zero, so that a bin's sign is the number's."""

Bins = dict[str, int]


@dataclass(frozen=True)
class Profile:
    """Counts over the rows of one table and day.

    Attributes:
        rows: number of rows.
        nulls: column -> rows without a value (NaN is none either).
        bins: feature -> bin -> rows; None for a feature with more than `MOST_VALUES` different values.
        rates: group -> (rows whose rate column is 1, rows).
        first: smallest stamp, microseconds since 1970; None without a clock or a stamp.
        last: largest stamp.
    """

    rows: int = 0
    nulls: Mapping[str, int] = field(default_factory=dict)
    bins: Mapping[str, Bins | None] = field(default_factory=dict)
    rates: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    first: int | None = None
    last: int | None = None

    def __add__(self, other: "Profile") -> "Profile":
        """The profile of both parts' rows together."""
        stamps = [stamp for stamp in (self.first, self.last, other.first, other.last) if stamp is not None]
        return Profile(
            rows=self.rows + other.rows,
            nulls=_summed(self.nulls, other.nulls),
            bins={name: _joined(self, other, name) for name in sorted({*self.bins, *other.bins})},
            rates={name: _added(self.rates, other.rates, name) for name in sorted({*self.rates, *other.rates})},
            first=min(stamps, default=None),
            last=max(stamps, default=None),
        )

    def null_rate(self, column: str) -> float:
        """Share of rows without a value."""
        return self.nulls.get(column, 0) / self.rows if self.rows else 0.0

    def to_json(self) -> str:
        """As text, the same for the same profile."""
        return json.dumps(vars(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Profile":
        """Read what `to_json` wrote."""
        raw = json.loads(text)
        return cls(**raw | {"rates": {name: tuple(pair) for name, pair in raw["rates"].items()}})


def _summed(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in sorted({*one, *other})}


def _added(one: Mapping[str, tuple[int, int]], other: Mapping[str, tuple[int, int]], name: str) -> tuple[int, int]:
    (ones, rows), (more_ones, more_rows) = one.get(name, (0, 0)), other.get(name, (0, 0))
    return ones + more_ones, rows + more_rows


def _joined(one: Profile, other: Profile, name: str) -> Bins | None:
    parts = [profile.bins[name] for profile in (one, other) if name in profile.bins]
    if any(part is None for part in parts):
        return None
    return _few(reduce(_summed, (part for part in parts if part is not None), {}))


def _few(bins: Bins) -> Bins | None:
    return bins if len(bins) <= MOST_VALUES or all(name.lstrip("-").isdigit() for name in bins) else None


def together(profiles: Iterable[Profile]) -> Profile:
    """The profile of all their rows."""
    return sum(profiles, start=Profile())


def profiles_of(rows: "pa.Table", partition: str, monitor: Monitor) -> dict[str, Profile]:
    """Profile of each day among rows.

    Args:
        rows: rows of one table, `partition` among its columns.
        partition: name of the day column.
        monitor: what is looked at.
    """
    import pyarrow.compute as pc

    days = rows.column(partition)
    return {
        str(ds): _profile(rows.filter(pc.equal(days, ds)), partition, monitor)
        for ds in sorted(days.unique().to_pylist())
    }


def profiles_on_spark(frame: "DataFrame", partition: str, monitor: Monitor) -> dict[str, Profile]:
    """As `profiles_of`, counted by the workers in Arrow batches and added up here."""
    import pyarrow as pa

    def parts(batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        for batch in batches:
            found = profiles_of(pa.Table.from_batches([batch]), partition, monitor)
            texts = [profile.to_json() for profile in found.values()]
            yield pa.RecordBatch.from_arrays(
                [pa.array(list(found), pa.string()), pa.array(texts, pa.string())], ["ds", "part"]
            )

    found: dict[str, Profile] = {}
    for row in frame.mapInArrow(parts, "ds string, part string").collect():
        found[row["ds"]] = found.get(row["ds"], Profile()) + Profile.from_json(row["part"])
    return dict(sorted(found.items()))


def _profile(rows: "pa.Table", partition: str, monitor: Monitor) -> Profile:
    import pyarrow.compute as pc

    first = last = None
    if monitor.clock in rows.column_names:
        ends = pc.min_max(rows.column(monitor.clock).cast("timestamp[us]").cast("int64")).as_py()
        first, last = ends["min"], ends["max"]
    return Profile(
        rows=len(rows),
        nulls={
            name: pc.sum(pc.is_null(rows.column(name), nan_is_null=_is_float(rows.column(name)))).as_py() or 0
            for name in sorted(rows.column_names)
            if name != partition
        },
        bins={name: _bins(rows.column(name)) for name in sorted(set(monitor.features) & set(rows.column_names))},
        rates=_rates(rows, *monitor.rate) if monitor.rate else {},
        first=first,
        last=last,
    )


def _is_float(column: "pa.ChunkedArray") -> bool:
    import pyarrow as pa

    return pa.types.is_floating(column.type)


def _bins(column: "pa.ChunkedArray") -> Bins | None:
    """Rows of each bin; rows without a value are counted elsewhere."""
    import pyarrow.compute as pc

    if _is_float(column):
        numbers = column.to_numpy(zero_copy_only=False)
        names, counts = np.unique(half_octaves(numbers[np.isfinite(numbers)]), return_counts=True)
        return {str(name): int(count) for name, count in zip(names, counts, strict=True)}
    counted = pc.value_counts(column.drop_null())
    if len(counted) > MOST_VALUES:
        return None
    return dict(sorted((f"={entry['values']}", entry["counts"]) for entry in counted.to_pylist()))


def half_octaves(numbers: "np.ndarray") -> "np.ndarray":
    """Bin of each finite number: 0 for zero, else twice the exponent of two and half a step, signed; exact."""
    mantissa, exponent = np.frexp(np.abs(numbers))
    steps = 2 * (exponent.astype(np.int64) + OCTAVES) + (mantissa >= np.sqrt(0.5))
    return np.where(numbers == 0, 0, np.sign(numbers).astype(np.int64) * steps)


def _rates(rows: "pa.Table", group: str, column: str) -> dict[str, tuple[int, int]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    ones = pc.equal(rows.column(column), 1).cast("int64")
    summed = (
        pa.table({"group": rows.column(group), "ones": ones})
        .group_by("group")
        .aggregate([("ones", "sum"), ("ones", "count")])
    )
    found: dict[str, Any] = {
        str(row["group"]): (int(row["ones_sum"] or 0), int(row["ones_count"])) for row in summed.to_pylist()
    }
    return dict(sorted(found.items()))
