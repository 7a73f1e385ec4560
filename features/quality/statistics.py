"""The numbers of a day that its suite judges: against bounds of its own, and against the days before.

One row a day and subject (the table's rows, its clock, a column, a feature, a group, a parent), one column a
statistic, null where a statistic does not apply or cannot be compared yet. All of it is made of the day's own
rows and of tables as published, so it is the same whenever and beside whichever other days it is computed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from features.days import day_bounds, micros, shift
from features.quality.monitors import Monitor
from features.quality.profile import Bins, Profile, together
from features.quality.shape import Change

TRAILING_DAYS = 14
"""Calendar days before a day with which it is compared; those that are readable and not empty count."""
FEWEST_DAYS = 3
"""With fewer days before it a day is not compared, and its check says so."""
GROUPS = 10
"""Bins of numbers are joined to this many groups of about equal weight."""
ROWS_A_GROUP = 20
"""Rows a group, below which a distribution is chance."""
EXPECTED_ONES = 20
"""Ones that a group's rate before lets expect, below which its rate is chance."""
QUIET_HOURS = 6.0
"""Hours without a row before a day's end that are never unusual."""
HOUR_US = 3_600_000_000


@dataclass(frozen=True)
class Surroundings:
    """What is known of a day beside its own rows.

    Attributes:
        before: day -> profile of the published days of `TRAILING_DAYS` before it.
        earlier: profile of the rows that were published for the day itself until now; None when there were none.
        refused: rows that the source refused; None where nothing is refused.
        change: how the columns differ from the table's.
        orphans: parent table -> rows without a partner in it; None where it was never published.
        matched: name of a reference -> day -> (rows with a partner, rows), the day's own among those before.
    """

    before: Mapping[str, Profile] = field(default_factory=dict)
    earlier: Profile | None = None
    refused: int | None = None
    change: Change = field(default_factory=Change)
    orphans: Mapping[str, int | None] = field(default_factory=dict)
    matched: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict)

    @property
    def compared(self) -> list[Profile]:
        """Profiles to compare with; none when there are too few."""
        filled = [profile for profile in self.before.values() if profile.rows]
        return filled if len(filled) >= FEWEST_DAYS else []


def trailing_days(ds: str) -> list[str]:
    """Days with which a day is compared, oldest first."""
    return [shift(ds, -back) for back in range(TRAILING_DAYS, 0, -1)]


def statistics_of(
    ds: str, profile: Profile, monitor: Monitor, around: Surroundings, timezone: str
) -> list[dict[str, Any]]:
    """Rows of the statistics frame of one day.

    Args:
        ds: the day.
        profile: of its rows.
        monitor: what is watched.
        around: what is known beside.
        timezone: of the day.
    """
    past = around.compared
    rows = [
        _volume(profile, monitor, around, past),
        *_columns(profile, monitor, past),
        *_features(profile, monitor, past),
    ]
    if profile.last is not None and profile.first is not None:
        rows.append(_clock(ds, profile.first, profile.last, monitor, around, timezone))
    rows += [*_rates(profile, past), *_columns_changed(around.change)]
    rows += [{"subject": f"{name} of its rows", "orphans": count} for name, count in around.orphans.items()]
    rows += [row for name, days in around.matched.items() if (row := _matched(ds, name, days))]
    return [{"ds": ds, **row} for row in rows]


def _volume(profile: Profile, monitor: Monitor, around: Surroundings, past: Sequence[Profile]) -> dict[str, Any]:
    """What is said of the rows as a whole."""
    refused, earlier = around.refused, around.earlier
    raw = profile.rows / monitor.kept
    return {
        "subject": "rows",
        "rows_ratio": profile.rows / median(day.rows for day in past) if past else None,
        "rows_lost": max(earlier.rows - profile.rows, 0) if earlier else 0,
        "refused_share": refused / max(refused + raw, 1) if refused is not None else None,
    }


def _columns_changed(change: Change) -> list[dict[str, Any]]:
    return [{"subject": name, "new_column": 1} for name in change.new] + [
        {"subject": name, "lost_column": 1} for name in change.lost
    ]


def _columns(profile: Profile, monitor: Monitor, past: Sequence[Profile]) -> list[dict[str, Any]]:
    whole = together(past)
    return [
        {
            "subject": name,
            "null_share": profile.null_rate(name) / monitor.nullable[name] if name in monitor.nullable else None,
            "null_rise": profile.null_rate(name) - whole.null_rate(name) if past and name in whole.nulls else None,
        }
        for name in profile.nulls
    ]


def _features(profile: Profile, monitor: Monitor, past: Sequence[Profile]) -> list[dict[str, Any]]:
    whole = together(past)
    drifts = {name: psi(whole.bins.get(name), profile.bins.get(name)) for name in monitor.features}
    return [{"subject": name, "psi": drift} for name, drift in drifts.items() if drift is not None]


def psi(before: Bins | None, now: Bins | None) -> float | None:
    """Population stability index of a distribution against an earlier one, zero when they are equal.

    Sum over groups of (p - q) ln(p / q); half a row is added to every group, so that none is empty.

    Returns:
        None when either has too few rows for its groups, or nothing to compare.
    """
    from numpy import array, log

    if not before or not now:
        return None
    groups = _groups(before, now)
    size, past = len(groups), sum(before.values())
    if size < 2 or min(past, sum(now.values())) < ROWS_A_GROUP * size:
        return None
    p, q = (array([sum(side.get(name, 0) for name in group) for group in groups]) + 0.5 for side in (now, before))
    p, q = p / p.sum(), q / q.sum()
    return float(((p - q) * log(p / q)).sum())


def _groups(before: Bins, now: Bins) -> list[list[str]]:
    """Values each for themselves; bins of numbers joined in order until a group weighs a tenth of the days before."""
    names = sorted({*before, *now})
    if any(name.startswith("=") for name in names):
        return [[name] for name in names]
    groups: list[list[str]] = [[]]
    weight, target = 0, sum(before.values()) / GROUPS
    for name in sorted(names, key=int):
        groups[-1].append(name)
        weight += before.get(name, 0)
        if weight >= target:
            groups.append([])
            weight = 0
    if len(groups) > 1 and not weight:
        groups[-2:] = [groups[-2] + groups[-1]]
    return groups


def _clock(ds: str, first: int, last: int, monitor: Monitor, around: Surroundings, timezone: str) -> dict[str, Any]:
    start, end = (micros(bound) for bound in day_bounds(ds, timezone))
    quiet = (end - last) / HOUR_US
    gaps = [
        (micros(day_bounds(day, timezone)[1]) - seen.last) / HOUR_US
        for day, seen in around.before.items()
        if seen.last is not None
    ]
    usual = max(QUIET_HOURS, 2 * max(gaps, default=0.0))
    return {
        "subject": monitor.clock,
        "seconds_before": max(start - first, 0) / 1e6 if monitor.within else None,
        "seconds_after": (last - end + 1) / 1e6 if last >= end else 0.0,
        "quiet_ratio": max(quiet, 0.0) / usual,
    }


def _rates(profile: Profile, past: Sequence[Profile]) -> list[dict[str, Any]]:
    whole, rows = together(past), []
    for group, (ones, count) in profile.rates.items():
        before, of = whole.rates.get(group, (0, 0))
        if before and count * before / of >= EXPECTED_ONES:
            rows.append({"subject": group, "rate_ratio": (ones / count) / (before / of)})
    return rows


def _matched(ds: str, name: str, days: Mapping[str, tuple[int, int]]) -> dict[str, Any] | None:
    found, of = days.get(ds, (0, 0))
    past = [pair for day, pair in days.items() if day < ds and pair[1]]
    share = sum(pair[0] for pair in past) / sum(pair[1] for pair in past) if len(past) >= FEWEST_DAYS else 0.0
    if not found and of >= EXPECTED_ONES:
        return {"subject": name, "matched_ratio": 0.0}
    if of * share < EXPECTED_ONES:
        return None
    return {"subject": name, "matched_ratio": (found / of) / share}
