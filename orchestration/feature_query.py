"""Answering `gemline features`: what the feature store knows of users and ads, now or as of an instant."""

from collections.abc import Sequence
from datetime import datetime

from features.errors import GemlineError
from orchestration.resources import WorldResource


def feature_table(world_name: str, users: Sequence[int], ads: Sequence[int], at: str | None) -> str:
    """Features as text, one line each: online without `at`, else as of that instant.

    Raises:
        GemlineError: `at` is no instant with a zone, or the store holds nothing yet.
    """
    gemline = WorldResource(world_name=world_name)
    return _online(gemline, users, ads) if at is None else _historical(gemline, users, ads, at)


def _online(gemline: WorldResource, users: Sequence[int], ads: Sequence[int]) -> str:
    from features.clock import now
    from features.store.lookup import online_features

    instant = now(gemline.world, gemline.home)
    found = online_features(gemline.world, gemline.home, users, ads, instant)
    parts = [f"online features at {instant.isoformat()}"]
    parts += [frame.T.to_string(max_colwidth=60) for frame in (found.users, found.ads) if len(frame)]
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
    pairs = [(user, ad) for user in users for ad in ads or (None,)]
    asked = pd.DataFrame(pairs, columns=["user_id", "ad_id"]).astype("Int64").assign(event_timestamp=instant)
    tables = gemline.tables()
    frame: pd.DataFrame = historical_features(tables.spark, gemline.world, gemline.home, tables, asked).toPandas()
    return f"historical features as of {instant.isoformat()}\n\n{frame.T.to_string(max_colwidth=60)}"
