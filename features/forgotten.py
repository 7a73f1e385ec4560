"""Users who were forgotten: what a log still holds of them does not come in again.

`GEMLINE_HOME/<world>/forgotten.json` keeps a salted hash of each, never the id itself, beside what was removed and what
remained. A user who is to be known again is taken out of the file by a person.
"""

import hashlib
import json
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from features.sources.base import Extracted
from features.sources.mentions import mentions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from features.home import Home
    from features.worlds.schema import World

FILE = "forgotten.json"


@dataclass(frozen=True)
class Forgotten:
    """The list of a world.

    Attributes:
        salt: hexadecimal, drawn once for a world.
        users: hash -> record (`reason`, `asked_at`, `removed`, `remains`, `done`).
    """

    salt: str
    users: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, home: "Home") -> "Forgotten":
        """The list as it stands; empty when nobody was forgotten."""
        path = home.root / FILE
        if not path.exists():
            return cls(secrets.token_hex(16), {})
        kept = json.loads(path.read_text(encoding="utf-8"))
        return cls(kept["salt"], kept["users"])

    def mark(self, user_id: int) -> str:
        """What stands for a user in the list."""
        return hashlib.sha256(f"{self.salt}{user_id}".encode()).hexdigest()

    def noted(self, home: "Home", user_id: int, record: dict[str, Any]) -> "Forgotten":
        """Write a user's record; the caller holds the writer lock."""
        changed = replace(self, users={**self.users, self.mark(user_id): record})
        staged = home.root / f"{FILE}.tmp"
        staged.write_text(json.dumps({"salt": changed.salt, "users": changed.users}, indent=1), encoding="utf-8")
        staged.replace(home.root / FILE)
        return changed

    def holds(self, user_id: "Column") -> "Column":
        """Whether a BIGINT id is on the list; false for null."""
        marks = F.sha2(F.concat(F.lit(self.salt), user_id.cast("string")), 256)
        return F.coalesce(marks.isin(list(self.users)), F.lit(False))


def without_forgotten(extracted: Extracted, world: "World", home: "Home") -> Extracted:
    """What a source read, less what is of forgotten users: as if the log had never held them."""
    forgotten = Forgotten.of(home)
    if not forgotten.users:
        return extracted
    held = extracted.tables
    tables = {
        name: frame.where(~forgotten.holds(F.col("user_id"))) if "user_id" in frame.columns else frame
        for name, frame in held.items()
    }
    requests = held["impressions"].where(forgotten.holds(F.col("user_id"))).select("request_id")
    tables["outcomes"] = _without_requests(tables["outcomes"], requests)
    refused = extracted.refused
    if refused is not None:
        refused = refused.where(~mentions(refused, world, forgotten.holds))
    return Extracted(tables, refused)


def _without_requests(outcomes: "DataFrame", requests: "DataFrame") -> "DataFrame":
    """Outcomes but those that name no user and follow one of the requests."""
    marked = F.broadcast(requests.distinct().withColumn("_gone", F.lit(True)))
    joined = outcomes.join(marked, "request_id", "left")
    return joined.where("_gone is null or user_id is not null").select(*outcomes.columns)
