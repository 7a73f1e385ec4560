"""`gemline forget`: what there is of a user, taking it out, and what remains.

What answers requests goes first (online store, cache), then the tables, then every old version of them. All of it
stands behind the world's writer lock, and the user's mark in `forgotten.json` is written before anything is removed: a
run that breaks off is ended by the same command.
"""

import operator
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from features.errors import GemlineError
from features.ids import id_of
from orchestration.filling import cache_of

if TYPE_CHECKING:
    from features.tables import Tables
    from features.tables.forgetting import Days, Traces

REASON = "a user was forgotten"


@dataclass(frozen=True)
class Account:
    """What there is of a user.

    Attributes:
        tables: table -> day -> rows.
        quarantine: table -> refused rows.
        online: values in the online store.
        cache: table of the cache -> rows.
        remains: what stays in artefacts and records, one sentence each.
    """

    tables: "Mapping[str, Days]"
    quarantine: Mapping[str, int]
    online: int
    cache: Mapping[str, int]
    remains: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """Place -> rows, where there are any."""
        found = {f"table {name}": sum(days.values()) for name, days in self.tables.items()}
        found |= {f"table {name}": rows for name, rows in self.quarantine.items()}
        found |= {"online store": self.online} if self.online else {}
        return found | {f"cache {name}": rows for name, rows in self.cache.items()}


def user_of(text: str) -> int:
    """The id that a user's raw text has in every table.

    Raises:
        GemlineError: it is blank.
    """
    found = id_of(text)
    if found is None:
        raise GemlineError("USER is blank; give the id as the log has it, number or text")
    return found


def account(tables: "Tables", user_id: int) -> Account:
    """Look for a user everywhere; nothing is changed."""
    from features.tables.forgetting import traces

    return _account(tables, traces(tables, user_id))


def forget(tables: "Tables", user_id: int, reason: str, say: Callable[[str], None]) -> Account:
    """Take a user out of tables, history, memory, online store and cache, and keep what a log still holds out.

    Doing it again changes nothing, or ends what broke off.

    Args:
        tables: of the world.
        user_id: the user.
        reason: kept in the ledger beside each restated day.
        say: told about progress.

    Returns:
        What there was and what remains; after a run that broke off, with what that one had found.

    Raises:
        Busy: somebody else writes the world.
        GemlineError: somebody wrote past the ledger, so old versions of a table were left alone.
    """
    from features.forgotten import Forgotten
    from features.store.forgetting import forget_online
    from features.tables.forgetting import drop_old_versions, refused, table_names, traces, withdraw

    world, home = tables.world, tables.home
    why = f"{REASON}: {reason.strip()}" if reason.strip() else REASON
    with home.writing("forgetting a user"):
        for name in table_names(tables):
            tables.recover(name)
        user = traces(tables, user_id)
        found = _account(tables, user)
        forgotten = Forgotten.of(home)
        record = _record(forgotten.users.get(forgotten.mark(user_id)), found, why)
        forgotten = forgotten.noted(home, user_id, record)
        say(f"online store: {forget_online(world, home, user_id, delete=True)} values")
        say(f"cache: {sum(_cached(tables, user_id, delete=True).values())} rows")
        for name, days in found.tables.items():
            withdraw(tables, name, list(days), user, why)
            say(f"{name}: {sum(days.values())} rows of {len(days)} days")
        refused(tables, user, delete=True)
        drop_old_versions(tables)
        # sorted copies of user_history, profiles and pages of audits; whoever needs them makes them again
        for copies in (home.root / "cache" / "histories", home.root / "quality"):
            shutil.rmtree(copies, ignore_errors=True)
        forgotten.noted(home, user_id, {**record, "done": True})
    return Account(found.tables, found.quarantine, found.online, found.cache, record["remains"])


def told(found: Account, *, done: bool) -> str:
    """An account in lines for people."""
    lines = [("removed" if done else "found") if found.counts else "nothing found"]
    for place, rows in found.counts.items():
        days = found.tables.get(place.removeprefix("table "), {})
        span = f" on {len(days)} days, {min(days)} to {max(days)}" if days else ""
        lines.append(f"  {place}: {rows} rows{span}")
    return "\n".join([*lines, "remains" if done else "would remain", *(f"  {line}" for line in found.remains)])


def _account(tables: "Tables", user: "Traces") -> Account:
    from features.store.forgetting import forget_online
    from features.tables.forgetting import held, refused
    from orchestration.remains import remains

    world, home = tables.world, tables.home
    days = held(tables, user)
    impressions = user.impressions.toArrow()["impression_id"].combine_chunks()
    return Account(
        tables=days,
        quarantine=refused(tables, user, delete=False),
        online=forget_online(world, home, user.user_id, delete=False),
        cache=_cached(tables, user.user_id, delete=False),
        remains=[*remains(world, home, user.user_id, days, impressions), *_said(tables, user.user_id)],
    )


def _said(tables: "Tables", user_id: int) -> list[str]:
    """Audits whose sample rows name the user: ledgers are append-only."""
    id_alone = re.compile(rf"(?<![\d-]){user_id}(?!\d)")
    gates = sorted({(gate.table, gate.ds) for gate in tables.ledger.rows() if id_alone.search(gate.sample)})
    return [
        f"ledger of gates, run history: the sample of an audit of {table} of {ds} has the id" for table, ds in gates
    ]


def _cached(tables: "Tables", user_id: int, *, delete: bool) -> dict[str, int]:
    path = tables.home.root / "cache" / "vectors.db"
    return cache_of(tables.world, tables.home).forget_user(user_id, delete=delete) if path.exists() else {}


def _record(before: dict[str, Any] | None, found: Account, reason: str) -> dict[str, Any]:
    """What is kept of a forgetting; one that broke off, or is asked for again, adds to its own record."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    old = before or {"asked_at": now, "removed": {}, "remains": [], "done": False}
    joined: Callable[[int, int], int] = operator.add if old["done"] else max
    places = dict.fromkeys([*old["removed"], *found.counts])
    removed = {place: joined(old["removed"].get(place, 0), found.counts.get(place, 0)) for place in places}
    remains = list(dict.fromkeys([*old["remains"], *found.remains]))
    return {"reason": reason, "asked_at": old["asked_at"], "removed": removed, "remains": remains, "done": False}
