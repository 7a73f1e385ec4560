"""Acting on a judgement, and taking it back: the decisions ledger and the live pointer, which never disagree.

What the ledger calls promoted is, was or becomes live; what cannot go live is carried, and a rollback is written into
both. The ledger comes first: a command that breaks off in between is run again and ends what it began.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from features.home import Home
from features.tables.decisions import ACCEPTED, ROLLED_BACK, ModelDecision
from serving import releases

if TYPE_CHECKING:
    from features.tables import Tables


def decide(tables: "Tables", line: str, ds: str, digest: str, folder: Path, judged: dict[str, Any]) -> ModelDecision:
    """Record the decision about `digest`; recording it again changes nothing.

    A model of a day that the live pointer has passed is carried, not promoted; what was rolled back stays so.

    Args:
        tables: the world's tables.
        line: model line.
        ds: day P.
        digest: of the judged artefact.
        folder: of its checkpoint.
        judged: `training.judgement.Judgement.to_json`.
    """
    decision = judged["decision"]
    path = folder.relative_to(tables.home.root).as_posix()
    made = ModelDecision(line, ds, digest, decision["kind"], decision["reason"], json.dumps(decision["evidence"]), path)
    with tables.home.writing(f"deciding about {line} of {ds}"):
        before = tables.decisions.of_digest(line, ds, digest)
        if before is not None and before.decision == ROLLED_BACK:
            return before
        if before is None or before.decision != "promoted":
            made = _that_may_go_live(tables.home, made)
        newest = tables.decisions.of_day(line, ds)
        if newest is not None and (newest.digest, newest.decision) == (made.digest, made.decision):
            return newest
        tables.decisions.append([made])
    return made


def go_live(home: Home, made: ModelDecision, digest: str, path: str) -> bool:
    """Move the live pointer of a promoted model's line to its artefact; it moves to a later day only.

    An artefact that is live already and was written anew in its place is followed.

    Args:
        home: the world's home.
        made: the decision.
        digest: of what is served: the model itself, or its package.
        path: of it, relative to the home.

    Returns:
        Whether it is live now.
    """
    if made.decision != "promoted":
        return False
    release = releases.Release(made.ds, digest, path)
    with home.writing(f"releasing {made.model} of {made.ds}"):
        live = releases.live(home.releases, made.model)
        if made.ds > releases.newest_day(home.releases, made.model):
            releases.promote(home.releases, made.model, release)
        elif live is not None and live != release and (live.ds, live.path) == (release.ds, release.path):
            releases.rewrite(home.releases, made.model, release)
        return releases.live(home.releases, made.model) == release


def roll_back(tables: "Tables", line: str, reason: str) -> tuple[releases.Release, list[ModelDecision]]:
    """Return to the release before the live one; nothing continues from, or is judged against, what came after it.

    Args:
        tables: the world's tables.
        line: model line.
        reason: kept in the release record and the ledger.

    Returns:
        What is live now, and the decisions that were taken back: of the live day and all later ones.

    Raises:
        ReleaseError: there is nothing to return to, or no reason.
    """
    home = tables.home
    with home.writing(f"rolling back {line}"):
        target, live = releases.earlier(home.releases, line, reason), releases.live(home.releases, line)
        assert live is not None
        taken = [
            row
            for row in tables.decisions.standing(line)
            if row.decision in ACCEPTED and (row.ds >= live.ds or (row.decision == "promoted" and row.ds > target.ds))
        ]
        tables.decisions.append([_taken_back(row, live.ds, reason.strip()) for row in taken])
        return releases.rollback(home.releases, line, reason).release, taken


def undo_rollback(tables: "Tables", line: str, reason: str) -> tuple[releases.Release, list[ModelDecision]]:
    """Take back a line's newest rollback, while nothing went live since.

    Returns:
        What is live again, and the decisions that stand again.

    Raises:
        ReleaseError: the newest move is no rollback, or no reason.
    """
    home = tables.home
    with home.writing(f"undoing the rollback of {line}"):
        release = releases.left(home.releases, line, reason)
        rolled_back = [row for row in tables.decisions.standing(line) if row.decision == ROLLED_BACK]
        again = [pair for pair in map(_before, rolled_back) if pair[0] == release.ds]
        tables.decisions.append([row for _, row in again])
        return releases.undo(home.releases, line, reason).release, [row for _, row in again]


def _that_may_go_live(home: Home, made: ModelDecision) -> ModelDecision:
    newest = releases.newest_day(home.releases, made.model)
    if made.decision != "promoted" or made.ds > newest:
        return made
    reason = (
        f"the gate accepts it ({made.reason}), but {newest} was live already and the pointer moves only to a later "
        "day; the next day continues from it"
    )
    return replace(made, decision="carried", reason=reason)


def _taken_back(row: ModelDecision, live: str, reason: str) -> ModelDecision:
    kept = {"live": live, "decision": row.decision, "reason": row.reason, "evidence": row.evidence}
    return replace(row, decision=ROLLED_BACK, reason=reason, evidence=json.dumps(kept))


def _before(row: ModelDecision) -> tuple[str, ModelDecision]:
    """Day that was live when a decision was taken back, and that decision."""
    kept = json.loads(row.evidence)
    return kept.pop("live"), replace(row, **kept)
