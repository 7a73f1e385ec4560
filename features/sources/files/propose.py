"""A first world file for logs that nobody has described yet: a draft that says where a person must decide.

`features.sources.files.roles` guesses what columns mean; here the files get their tables and the world its surfaces,
tasks and features. What is not sure becomes a sentence in `Proposal.open`, and a comment at the head of the file.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml

from features.days import day_of
from features.errors import WorldError
from features.sources.files.drafting import Draft, draft_tables, slug, surfaces_of
from features.sources.files.peek import peeks
from features.sources.files.roles import HAPPENED, Roles, roles, words

DAY_IS_ENOUGH = "PT24H"


@dataclass(frozen=True)
class Proposal:
    """A world file, and what a person must look at before it is used."""

    text: str
    open: tuple[str, ...]


def propose(logs: Sequence[Path], name: str, timezone: str, folder: Path) -> Proposal:
    """Draft a world file.

    Args:
        logs: files or folders of one log.
        name: of the world.
        timezone: whose days are the partitions.
        folder: where the file will lie.

    Raises:
        WorldError: no such zone, no files, or no table of impressions can be seen in them.
    """
    try:
        ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError):
        raise WorldError(f"'{timezone}' is no IANA time zone (for example Europe/Berlin)") from None
    base, found = peeks(logs)
    known = [roles(peek) for peek in found]
    draft, impressions = draft_tables(known)
    options = {"path": os.path.relpath(base, folder.resolve())} | draft.mappings
    world = _world(draft, impressions, name, timezone, options)
    head = [f"# Drafted from a sample of {len(found)} kinds of files. docs/worlds.md explains every key."]
    head += [f"# FILL IN: {question}" for question in draft.open]
    head += [
        f"# Left out of {file} (one value, too many, or measured): {_some(raws)}" for file, raws in draft.left.items()
    ]
    body = yaml.dump(world, Dumper=_Plain, sort_keys=False, width=118, default_flow_style=None, allow_unicode=True)
    return Proposal("\n".join([*head, body]), tuple(draft.open))


class _Plain(yaml.SafeDumper):
    """Without anchors: what stands twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        """Of all values."""
        return True


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def _world(draft: Draft, entry: Roles, name: str, timezone: str, options: dict[str, Any]) -> dict[str, Any]:
    days = _days(entry.instants(str(entry.moment())), timezone)
    draft.open.append(f"first_day and last_day are those of the sample, {days[0]} to {days[-1]}")
    surfaces = [slug(value) for value in surfaces_of(entry)] or ["main"]
    tasks = _tasks(draft, entry, options["outcomes"])
    attributes = {table: _attributes(options.get(table, {})) for table in ("users", "ads")}
    context = [column.removeprefix("context_") for column in options["impressions"]["columns"] if _is_context(column)]
    keys = [key for key in ("user_id", "ad_id") if key in options["impressions"]["columns"]]
    categorical = [{"name": key, "table": key.removesuffix("_id")} for key in keys]
    categorical += [_categorical(draft, feature) for feature in draft.features]
    categorical += [{"name": made, "table": made} for made in ("surface", "hour", "weekday")]
    primary = next(task["name"] for task in tasks if task.get("primary"))
    sizes = {"hour": 64, "weekday": 16, "surface": 16} | {"user": 65536, "ad": 65536}
    sizes |= {feature["table"]: _rows(draft.features[feature["name"]]) for feature in categorical
              if feature["name"] in draft.features}  # fmt: skip
    embeddings = [{"name": name, "width": width} for name, width in draft.vectors.items()]
    used = {str(feature["table"]) for feature in categorical} | {"ad"}
    return {
        "name": name,
        "title": name.replace("_", " ").capitalize(),
        "description": "FILL IN",
        "clock": "replay",
        "timezone": timezone,
        "first_day": days[0],
        "last_day": days[-1],
        "source": {"adapter": "files", "options": options},
        "surfaces": [{"name": surface} for surface in surfaces],
        "context": context,
        "event_types": draft.events,
        "tasks": tasks,
        **{table: {"attributes": found} for table, found in attributes.items() if found},
        "history": {"fields": [{"name": "ad_id", "table": "ad", "candidate": "ad_id"}]},
        "categorical": categorical,
        **({"embeddings": embeddings} if embeddings else {}),
        "tables": {table: rows for table, rows in sizes.items() if table in used},
        "verticals": [{"name": f"{surfaces[0]}_{primary}", "surfaces": surfaces[:1], "tasks": [primary]}],
    }  # fmt: skip


def _is_context(column: str) -> bool:
    return column.startswith("context_")


def _attributes(mapping: dict[str, Any]) -> list[str]:
    return [name for name in mapping.get("columns", {}) if name not in ("user_id", "ad_id", "known_from")]


def _categorical(draft: Draft, feature: str) -> dict[str, Any]:
    return {"name": feature, "table": feature.removeprefix("context_")} | (
        {"multi": True} if feature in draft.many else {}
    )


def _rows(values: int) -> int:
    """Rows of an embedding table: a power of two, some four times what the sample shows."""
    return max(16, 1 << (4 * values).bit_length())


def _tasks(draft: Draft, entry: Roles, outcomes: dict[str, Any]) -> list[dict[str, Any]]:
    keys = set(outcomes["columns"])
    match = ["request_id", "ad_id"] if {"request_id"} <= keys & draft.given else [*({"user_id"} & keys), "ad_id"]
    tasks = []
    ranked = sorted(draft.events, key=lambda event: event != "click")
    timed = {name for name, label in entry.labels.items() if "at" in label} if "labels" in outcomes else set(ranked)
    for event in ranked:
        at_once = event not in timed
        window = (
            {"window": "PT0S", "from_request": True} if at_once else {"window": DAY_IS_ENOUGH, "from_request": True}
        )
        tasks.append({"name": event, "event": event, "match": match} | window)
        if not at_once and (words(event) & HAPPENED or len(ranked) == 1):
            draft.open.append(f"tasks: within {DAY_IS_ENOUGH} of the impression a {event} counts; is that long enough?")
    wanted = [task for task in tasks if words(str(task["name"])) & HAPPENED] or tasks[:1]
    tasks = wanted
    tasks[0]["primary"] = True
    if len(wanted) < len(ranked):
        draft.open.append(
            f"tasks: of {', '.join(ranked)} only {', '.join(str(task['name']) for task in tasks)} are tasks"
        )
    return tasks


def _days(instants: Iterable[datetime], timezone: str) -> tuple[str, str]:
    days = [day_of(at, timezone) for at in instants]
    return min(days), max(days)
