"""Acting on a judgement: the decisions ledger, and the live pointer for what is promoted."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from features.home import Home
from features.tables.decisions import ModelDecision
from serving import releases

if TYPE_CHECKING:
    from features.tables import Tables


def decide(tables: "Tables", line: str, ds: str, digest: str, folder: Path, judged: dict[str, Any]) -> ModelDecision:
    """Record the decision about `digest`; recording it again changes nothing.

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
        before = tables.decisions.of_day(line, ds)
        if before is not None and (before.digest, before.decision) == (made.digest, made.decision):
            return before
        tables.decisions.append([made])
    return made


def go_live(home: Home, made: ModelDecision, digest: str, path: str) -> bool:
    """Move the live pointer of a promoted model's line to its artefact; it moves to a later day only.

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
        moves = releases.history(home.releases, made.model)
        if made.ds > max((move.release.ds for move in moves), default=""):
            releases.promote(home.releases, made.model, release)
        return releases.live(home.releases, made.model) == release
