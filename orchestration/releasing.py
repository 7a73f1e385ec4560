"""Acting on a judgement: the decisions ledger, and the live pointer for what is promoted."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from features.tables.decisions import ModelDecision
from serving import releases

if TYPE_CHECKING:
    from features.tables import Tables


def release(tables: "Tables", model: str, ds: str, digest: str, folder: Path, judged: dict[str, Any]) -> ModelDecision:
    """Record the decision about `digest` and move the live pointer if it is promoted.

    Doing it again changes nothing; the pointer moves to a later day only.

    Args:
        tables: the world's tables.
        model: model line.
        ds: day P.
        digest: of the judged artefact.
        folder: of its checkpoint.
        judged: `training.judgement.Judgement.to_json`.
    """
    decision = judged["decision"]
    path = folder.relative_to(tables.home.root).as_posix()
    made = ModelDecision(
        model, ds, digest, decision["kind"], decision["reason"], json.dumps(decision["evidence"]), path
    )
    with tables.home.writing(f"releasing {model} of {ds}"):
        before = tables.decisions.of_day(model, ds)
        if before is not None and (before.digest, before.decision) == (made.digest, made.decision):
            made = before
        else:
            tables.decisions.append([made])
        if made.decision == "promoted" and _is_later(tables, model, ds):
            releases.promote(tables.home.releases, model, releases.Release(ds, digest, made.path))
    return made


def _is_later(tables: "Tables", model: str, ds: str) -> bool:
    moves = releases.history(tables.home.releases, model)
    return ds > max((move.release.ds for move in moves), default="")
