"""Answering `gemline features query`: what the feature store knows of users and ads, now or as of an instant."""

from collections.abc import Sequence
from datetime import datetime

from features.errors import GemlineError
from features.ids import id_of
from orchestration.resources import WorldResource


def feature_table(world_name: str, users: Sequence[str], ads: Sequence[str], at: str | None) -> str:
    """Features as text, one line each: online without `at`, else as of that instant.

    Args:
        world_name: whose store.
        users: ids as the log has them, numbers or text.
        ads: likewise.
        at: ISO 8601 with a zone.

    Raises:
        GemlineError: `at` is no instant with a zone, an id is blank, or the store holds nothing yet.
    """
    gemline = WorldResource(world_name=world_name)
    user_ids, ad_ids = _ids("--user", users), _ids("--ad", ads)
    return _online(gemline, user_ids, ad_ids) if at is None else _historical(gemline, user_ids, ad_ids, at)


def _ids(option: str, texts: Sequence[str]) -> list[int]:
    """Ids by the rule of the ingest: 64-bit numbers exactly, other text by its hash."""
    found = [id_of(text) for text in texts]
    if None in found:
        raise GemlineError(f"{option} is blank; give an id as the log has it, number or text")
    return [item for item in found if item is not None]


def _online(gemline: WorldResource, users: Sequence[int], ads: Sequence[int]) -> str:
    from features.clock import now
    from features.store.lookup import online_features

    instant = now(gemline.world, gemline.home)
    found = online_features(gemline.world, gemline.home, users, ads, instant)
    parts = [f"online features at {instant.isoformat()}"]
    # as objects: transposed to one type, 64-bit ids would become floats
    parts += [frame.astype(object).T.to_string(max_colwidth=60) for frame in (found.users, found.ads) if len(frame)]
    parts += [f"{view}: {reasons}" for view, reasons in found.missing.items() if reasons]
    return "\n\n".join(parts)


def _historical(gemline: WorldResource, users: Sequence[int], ads: Sequence[int], at: str) -> str:
    import pandas as pd

    from features.store.historical import historical_features

    try:
        instant = datetime.fromisoformat(at)
    except ValueError:
        raise GemlineError(f"--at {at} is no instant; write for example 2017-07-01T12:00:00-04:00") from None
    if instant.tzinfo is None:
        raise GemlineError(f"--at {at} has no time zone; write for example {at}Z")
    pairs = [(user, ad) for user in users or (None,) for ad in ads or (None,)]
    asked = pd.DataFrame(pairs, columns=["user_id", "ad_id"]).astype("Int64").assign(event_timestamp=instant)
    tables = gemline.tables()
    rows = historical_features(tables.spark, gemline.world, gemline.home, tables, asked).collect()
    frame = pd.DataFrame([row.asDict() for row in rows], dtype=object)
    return f"historical features as of {instant.isoformat()}\n\n{frame.T.to_string(max_colwidth=60)}"
