"""What stays of a forgotten user in what was made before: weights, generations, packages, and records beside them.

An artefact has a digest over all its files, so nothing can be taken out of one; it is named instead, with what would
leave it behind. Read off manifests before anything is removed: afterwards no table says whose rows were trained on.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from features.home import Home
from features.tables.forgetting import Days
from features.worlds.schema import GEM, World

if TYPE_CHECKING:
    import pyarrow as pa

PREDICTIONS = "predictions.parquet"
COMMITTED = "COMMITTED"


def remains(world: World, home: Home, user_id: int, found: Mapping[str, Days], impressions: "pa.Array") -> list[str]:
    """One sentence for each artefact or record that goes on holding something of a user.

    Args:
        world: names the model lines.
        home: where the artefacts are.
        user_id: the user.
        found: `features.tables.forgetting.held`.
        impressions: ids of the user's impressions, int64.
    """
    models = _models(home)
    learned = {digest: _learned(digest, models, found.get("examples", {})) for digest in models}
    live = _live(world, home)
    lines = list(_weights(world, models, learned, live, user_id))
    lines += _generations(home, learned)
    lines += _packages(home, learned, live, user_id)
    if named := [one for one in models.values() if _names(one["folder"] / PREDICTIONS, impressions)]:
        lines.append(
            f"{PREDICTIONS} of {len(named)} checkpoints: probabilities by impression id (recalibrated ones hold logits "
            "that wait for a label as well), which no table leads back to the user any more"
        )
    if found:
        lines.append("ad_stats, popularity and metrics: sums over all users of those days, which name nobody")
        lines.append("file statistics in the Delta logs: bounds of ids in older commits, until Delta drops these")
    if (home.root / "inbox").is_dir() and any((home.root / "inbox").iterdir()):
        lines.append(f"{home.root / 'inbox'}: files that this version does not read; look at them yourself")
    lines.append("the raw log outside of GEMLINE_HOME: rows of the user in it are left out of every later ingest")
    return lines


def _models(home: Home) -> dict[str, dict[str, Any]]:
    """Digest -> manifest of every committed checkpoint, with `line`, `ds` and `folder`."""
    found: dict[str, dict[str, Any]] = {}
    for folder in sorted(home.checkpoints.glob("*/*/attempt-*")):
        if not (folder / COMMITTED).exists():
            continue
        try:
            manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            about = {"line": folder.parent.parent.name, "ds": folder.parent.name, "folder": folder}
            found[manifest["digest"]] = {**manifest, **about}
        except (OSError, ValueError, KeyError, TypeError):
            # what cannot be read is never loaded as a model either
            continue
    return found


def _learned(digest: str | None, models: Mapping[str, dict[str, Any]], days: Days) -> int:
    """Impressions of the user on days that a model or one before it was trained on."""
    consumed: set[str] = set()
    while digest is not None and digest in models:
        manifest = models[digest]
        consumed |= {day for table, day, _ in manifest["consumed"] if table == "examples"}
        digest = (manifest["parent"] or {}).get("digest")
    return sum(rows for day, rows in days.items() if day in consumed)


def _live(world: World, home: Home) -> set[str]:
    from serving import releases

    lines = (GEM, *(vertical.name for vertical in world.verticals))
    found = (releases.live(home.releases, line) for line in lines)
    return {release.digest for release in found if release is not None}


def _weights(
    world: World, models: Mapping[str, dict[str, Any]], learned: Mapping[str, int], live: set[str], user_id: int
) -> Iterator[str]:
    trained = {digest: count for digest, count in learned.items() if count}
    for digest, count in trained.items():
        one, mark = models[digest], ", live" if digest in live else ""
        yield f"weights of {one['line']} of {one['ds']} ({digest[:12]}{mark}): trained on up to {count} impressions"
    if trained and (table := next((one.table for one in world.categorical if one.name == "user_id"), None)):
        import numpy as np

        from features.transform.hashing import rows_of, table_salt

        size = world.tables[table]
        row = rows_of(np.array([user_id]), np.array([False]), size, table_salt(table))[0]
        yield (
            f"in these weights the id has row {row} of {size} of the embedding table `{table}`, which other ids share; "
            f"models trained from a cold start after this hold nothing of the user"
        )


def _generations(home: Home, learned: Mapping[str, int]) -> Iterator[str]:
    for path in sorted(home.releases.glob("generations/gen-*/manifest.json")):
        manifest = _json(path)
        if count := learned.get((manifest.get("model") or {}).get("digest", ""), 0):
            yield f"generation {manifest['name']}: its GEM was trained on up to {count} impressions; freeze a later one"


def _packages(home: Home, learned: Mapping[str, int], live: set[str], user_id: int) -> Iterator[str]:
    from serving.parity_rows import rows_of_user

    for path in sorted(home.releases.glob("*/packages/*/manifest.json")):
        manifest, folder = _json(path), path.parent
        count, rows = learned.get(manifest.get("model_digest", ""), 0), rows_of_user(folder, user_id)
        holds = [f"a model trained on up to {count} impressions"] if count else []
        holds += [f"{rows} rows, events and memories of the user among those by which it checks itself"] if rows else []
        if holds:
            mark = " (live)" if manifest.get("digest") in live else ""
            name = f"{manifest.get('vertical')} {folder.name}{mark}"
            yield f"package {name}: {' and '.join(holds)}; release a later day, then delete {folder}"


def _names(predictions: Path, impressions: "pa.Array") -> bool:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if not predictions.exists() or not len(impressions):
        return False
    scored = pq.read_table(predictions, columns=["impression_id"])["impression_id"]
    return bool(pc.any(pc.is_in(scored, impressions)).as_py())


def _json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}
