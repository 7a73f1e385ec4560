"""The audit of days: rules about a day as a whole are rules about the rows of its statistics frame."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from features.home import Home
from features.quality.day_rules import BY_STATISTIC, RULES, expectation_of, sentence
from features.quality.monitors import Monitor
from features.quality.outcome import Audited, Staged
from features.quality.past import Past
from features.quality.profile import Profile
from features.quality.references import matched_of, orphans_of
from features.quality.shape import Change
from features.quality.statistics import Surroundings, statistics_of, trailing_days
from features.quality.validation import validate
from features.worlds.schema import World

if TYPE_CHECKING:
    import pandas as pd


def audit_days(
    staged: Staged, world: World, home: Home, past: Past, monitor: Monitor, profiles: Mapping[str, Profile]
) -> dict[str, Audited]:
    """Outcome of each day's statistics.

    Args:
        staged: the days.
        world: zone, tasks, closed days.
        home: where results go.
        past: published tables.
        monitor: what is watched.
        profiles: day -> profile of its rows, of every day that has some.
    """
    around = _surroundings(staged, world, past, monitor, profiles)
    frame = statistics_frame(
        [
            row
            for ds, profile in profiles.items()
            for row in statistics_of(ds, profile, monitor, around[ds], world.timezone)
        ]
    )
    expectations = [expectation_of(rule) for rule in RULES if rule.statistic in frame]
    days = {ds: staged.content[ds] for ds in profiles}
    name = f"{staged.spec.name}.days"
    validated = validate(home, world, name, expectations, frame, days, ["ds", "subject"], final=True)
    found = {ds: Audited(pages=(validated.page,)) for ds in profiles}
    for entry in validated.result.results:
        assert entry.expectation_config is not None
        statistic = str(entry.expectation_config.kwargs["column"])
        for row in entry.result.get("unexpected_index_list") or ():
            text = sentence(statistic, row["subject"], row[statistic])
            critical = BY_STATISTIC[statistic].severity == "critical"
            found[row["ds"]] += Audited(statistic, text) if critical else Audited(warnings=(f"{statistic}: {text}",))
    return found


def statistics_frame(rows: Sequence[Mapping[str, Any]]) -> "pd.DataFrame":
    """Statistics rows as a frame, without the statistics that apply to none of them."""
    import pandas as pd

    frame = pd.DataFrame(rows, columns=["ds", "subject", *BY_STATISTIC])
    kept = [name for name in BY_STATISTIC if frame[name].notna().any()]
    return frame[["ds", "subject"]].join(frame[kept].astype("float64"))


def _surroundings(
    staged: Staged, world: World, past: Past, monitor: Monitor, profiles: Mapping[str, Profile]
) -> dict[str, Surroundings]:
    """What is known beside each day; of the days before, those of the same run are as they will be published."""
    spec, days = staged.spec, list(profiles)
    wanted = sorted({day for ds in days for day in (*trailing_days(ds), ds)})
    published = past.profiles(spec, monitor, wanted)
    known = published | {ds: Profile() for ds in staged.rows} | dict(profiles)
    orphans = orphans_of(staged.frame, spec, world, monitor, past, days)
    matched = matched_of(staged.frame, spec, world, past, days, [day for day in wanted if day not in days])
    first = min(days)
    before = {ds: trailing_days(ds) for ds in days}
    return {
        ds: Surroundings(
            before={day: known[day] for day in before[ds] if day in known},
            earlier=published.get(ds),
            refused=staged.refused.get(ds),
            # told once: of the next day the table has them already
            change=staged.change if ds == first else Change(),
            orphans=orphans[ds],
            matched={
                name: {day: found[day] for day in (*before[ds], ds) if day in found}
                for name, found in matched.items()
                if not world.is_closed(ds)
            },
        )
        for ds in days
    }
