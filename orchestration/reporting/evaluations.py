"""Reading evaluation files: what `training.judgement.Judgement.to_json` wrote, as frozen plain data.

Whatever is not a finite number here is a reason: None, NaN or a missing entry never pass for a value.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from features.errors import GemlineError
from features.home import Home

KINDS = ("promoted", "carried", "rejected")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval, or why it, or the interval, does not exist.

    Attributes:
        value: None when undefined.
        low: lower end, None without an interval.
        high: upper end, None without an interval.
        reason: why there is no value, or no interval; empty when both are there.
        groups: users or requests that counted, for averages over them.
        skipped: users or requests of one class, which did not count.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""
    groups: int | None = None
    skipped: int | None = None


@dataclass(frozen=True)
class Bin:
    """One of the bins of equal weight of a reliability plot; fields as of `training.score_histogram.ReliabilityBin`."""

    predicted: float
    observed: float
    rows: int
    positives: int


@dataclass(frozen=True)
class Slice:
    """One row of an evaluation table.

    Attributes:
        task: the task.
        by: what it is a slice by: all, surface, user_frequency, ad_frequency or day.
        value: of that; None for all rows together.
        days: first to last day of the impressions, empty without rows.
        rows: how many rows.
        positives: how many of them are positive.
        status: `ok`, `insufficient (n)` with n positives, or `undefined (reason)`.
        estimates: by metric; empty when insufficient.
        reliability: bins, of all rows and of surfaces; empty elsewhere and without a value.
    """

    task: str
    by: str
    value: str | None
    days: str
    rows: int
    positives: int
    status: str
    estimates: Mapping[str, Estimate]
    reliability: tuple[Bin, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """What one primary task said at the gate; fields as of `training.gate.TaskEvidence`."""

    task: str
    verdict: str
    reason: str
    rows: int
    positives: int
    days: tuple[str, ...]


@dataclass(frozen=True)
class Evaluation:
    """One evaluation file.

    Attributes:
        ds: its day.
        decision: one of `KINDS`.
        reason: of the decision, one sentence.
        evidence: of the decision, by primary task.
        served: metrics of what became due on the day, as served.
        pooled: the same, pooled over several days.
        against_popularity: the model minus popularity.
        transfer: a vertical with GEM minus the same vertical alone; None when the file has no such table.
        digest: of the judged artefact, empty when the file does not say.
        generation: that a vertical was judged with, empty when the file does not say.
    """

    ds: str
    decision: str
    reason: str
    evidence: tuple[Evidence, ...]
    served: tuple[Slice, ...]
    pooled: tuple[Slice, ...]
    against_popularity: tuple[Slice, ...]
    transfer: tuple[Slice, ...] | None
    digest: str
    generation: str


def evaluation_file(home: Home, line: str, ds: str) -> Path:
    """Where a line's judgement of a day is kept."""
    return home.releases / line / "evaluations" / f"{ds}.json"


def evaluated_days(home: Home, line: str) -> list[str]:
    """Days of which a line has an evaluation file, in date order."""
    found = (home.releases / line / "evaluations").glob("*.json")
    return sorted(path.stem for path in found if _DAY.fullmatch(path.stem))


def read_evaluation(home: Home, line: str, ds: str) -> Evaluation | None:
    """A line's evaluation of a day, None when it was not judged.

    Raises:
        GemlineError: the file is torn or is no evaluation.
    """
    path = evaluation_file(home, line, ds)
    if not path.exists():
        return None
    try:
        return _evaluation(ds, json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise GemlineError(
            f"the evaluation of {line} of {ds} cannot be read ({error!r}); materialize its evaluation again"
        ) from error


def _evaluation(ds: str, found: dict[str, Any]) -> Evaluation:
    decision = found["decision"]
    if decision["kind"] not in KINDS:
        raise ValueError(f"decision {decision['kind']!r} is none of {', '.join(KINDS)}")
    transfer = found.get("transfer")
    return Evaluation(
        ds=ds,
        decision=decision["kind"],
        reason=decision["reason"],
        evidence=tuple(_evidence(entry) for entry in decision.get("evidence") or ()),
        served=_table(found.get("served")),
        pooled=_table(found.get("pooled")),
        against_popularity=_table(found.get("against_popularity")),
        transfer=None if transfer is None else _table(transfer),
        digest=found.get("digest") or "",
        generation=found.get("generation") or "",
    )


def _evidence(found: dict[str, Any]) -> Evidence:
    return Evidence(
        task=found["task"],
        verdict=found["verdict"],
        reason=found["reason"],
        rows=found["rows"],
        positives=found["positives"],
        days=tuple(found.get("days") or ()),
    )


def _table(rows: list[dict[str, Any]] | None) -> tuple[Slice, ...]:
    return tuple(_slice(row) for row in rows or ())


def _slice(row: dict[str, Any]) -> Slice:
    first, last = row.get("first_day"), row.get("last_day")
    return Slice(
        task=row["task"],
        by=row["by"],
        value=row["value"],
        days=(first or "") if first == last else f"{first} to {last}",
        rows=row["rows"],
        positives=row["positives"],
        status=row["status"],
        estimates={name: _estimate(entry) for name, entry in (row.get("metrics") or {}).items()},
        reliability=tuple(_bin(entry) for entry in row.get("reliability") or ()),
    )


def _bin(entry: dict[str, Any]) -> Bin:
    return Bin(entry["predicted"], entry["observed"], entry["rows"], entry["positives"])


def _estimate(found: dict[str, Any] | None) -> Estimate:
    entry = found or {}
    value, low, high = (_finite(entry.get(name)) for name in ("value", "low", "high"))
    if low is None or high is None:
        low = high = None
    reason = entry.get("reason") or ("" if low is not None and value is not None else "no reason was recorded")
    return Estimate(value, low, high, reason, entry.get("groups"), entry.get("skipped"))


def _finite(number: float | None) -> float | None:
    return float(number) if number is not None and math.isfinite(number) else None
