"""The live pointer of a model: which release is served, and every move it ever made.

`<root>/<model>/history/000007.json` are immutable records, each naming the record before it; `live.json`
points at one of them and moves by an atomic rename after the record is on disk. A crash in between leaves a
record that nothing points at, which is ignored. JSON only. Writers hold the world's writer lock; readers need
none.
"""

import json
import os
import re
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from features.errors import GemlineError
from features.worlds.schema import GEM

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}(\.[A-Za-z0-9_-]{1,63}){0,3}")
_DIGEST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9:_-]{0,126}[A-Za-z0-9])?")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class ReleaseError(GemlineError):
    """A release that may not be made, or a pointer that cannot be trusted."""


@dataclass(frozen=True)
class Release:
    """What is served.

    Attributes:
        ds: partition of the model.
        digest: of the model or package, as judged.
        path: folder of the artefact below the world's home (the parent of the releases root), with `/`.
    """

    ds: str
    digest: str
    path: str

    def __post_init__(self) -> None:
        """Refuse anything that is not a day, a digest and a path that stays below its root."""
        if not (_is(_DAY, self.ds) and _is_day(self.ds)):
            raise ReleaseError(f"release day {self.ds!r} is not a day; give it as YYYY-MM-DD")
        if not _is(_DIGEST, self.digest):
            raise ReleaseError(f"release digest {self.digest!r} is not a digest; give letters, digits, ':', '_', '-'")
        parts = PurePosixPath(self.path).parts if isinstance(self.path, str) else ()
        if (
            not parts
            or ".." in parts
            or PurePosixPath(self.path).is_absolute()
            or "\\" in self.path
            or "\0" in self.path
        ):
            raise ReleaseError(f"release path {self.path!r} must be relative to the world's home and stay inside it")


@dataclass(frozen=True)
class Record:
    """One move of the live pointer.

    Attributes:
        sequence: number of the record, from 1.
        action: `promoted` or `rolled_back`.
        release: what went live.
        reason: why; empty for a promotion by the gate.
        previous: record that was live before, None for the first one.
        recorded_at: wall clock in UTC, for audit only.
    """

    sequence: int
    action: Literal["promoted", "rolled_back"]
    release: Release
    reason: str
    previous: int | None
    recorded_at: str


def live(root: Path, model: str) -> Release | None:
    """The release that is served, None when none was ever promoted.

    Args:
        root: releases folder of a world.
        model: name of the model.

    Raises:
        ReleaseError: the pointer or its record is damaged or lost.
    """
    record = _live_record(_folder(root, model))
    return record.release if record else None


def history(root: Path, model: str) -> list[Record]:
    """Every move of the pointer, oldest first.

    Raises:
        ReleaseError: the pointer or a record is damaged or lost.
    """
    folder = _folder(root, model)
    record = _live_record(folder)
    moves = []
    while record:
        moves.append(record)
        record = _read_record(folder, record.previous) if record.previous is not None else None
    return moves[::-1]


def promote(root: Path, model: str, release: Release) -> Record:
    """Make a release live; doing it again changes nothing.

    Args:
        root: releases folder of a world.
        model: name of the model.
        release: its folder must exist.

    Returns:
        The record of the move, the old one when the release is live already.

    Raises:
        ReleaseError: the day is not later than every day that was ever live, or the artefact is not there.
    """
    folder = _folder(root, model)
    moves = history(root, model)
    if moves and moves[-1].release == release:
        return moves[-1]
    newest = newest_day(root, model)
    if release.ds <= newest:
        raise ReleaseError(
            f"{model} of {release.ds} cannot go live: {newest} was live already, and the pointer moves "
            "only to a later day; release a later day, or roll back explicitly"
        )
    artefact_path(root, release)
    return _move(folder, moves, "promoted", release, "")


def rollback(root: Path, model: str, reason: str) -> Record:
    """Return to the release that was promoted before the live one; the day rolled back stays barred.

    Args:
        root: releases folder of a world.
        model: name of the model.
        reason: why, for the record; must not be blank.

    Raises:
        ReleaseError: as `earlier`.
    """
    release = earlier(root, model, reason)
    return _move(_folder(root, model), history(root, model), "rolled_back", release, reason.strip())


def earlier(root: Path, model: str, reason: str) -> Release:
    """What a rollback would return to.

    Raises:
        ReleaseError: no reason, nothing to return to, or the artefact is not there any more.
    """
    _require_reason(f"rolling back {model}", reason)
    served: list[Release] = []
    for move in history(root, model):
        if move.action == "rolled_back":
            served.pop()
        elif served and served[-1].path == move.release.path:
            served[-1] = move.release
        else:
            served.append(move.release)
    if len(served) < 2:
        raise ReleaseError(f"{model} has no earlier release to return to; promote one first")
    artefact_path(root, served[-2])
    return served[-2]


def undo(root: Path, model: str, reason: str) -> Record:
    """Take back the newest move, a rollback: what it left is live again.

    Raises:
        ReleaseError: as `left`.
    """
    release = left(root, model, reason)
    return _move(_folder(root, model), history(root, model), "promoted", release, reason.strip())


def left(root: Path, model: str, reason: str) -> Release:
    """The release that the newest move, a rollback, left.

    Raises:
        ReleaseError: no reason, the newest move is no rollback, or the artefact is not there any more.
    """
    _require_reason(f"undoing a rollback of {model}", reason)
    moves = history(root, model)
    if not moves or moves[-1].action != "rolled_back":
        raise ReleaseError(f"the newest move of {model} is no rollback, so there is none to undo; see the report")
    artefact_path(root, moves[-2].release)
    return moves[-2].release


def rewrite(root: Path, model: str, release: Release) -> Record:
    """Follow the live artefact, which was written anew in its place and has another digest now.

    Raises:
        ReleaseError: another artefact is live.
    """
    moves = history(root, model)
    if not moves or (moves[-1].release.ds, moves[-1].release.path) != (release.ds, release.path):
        raise ReleaseError(f"{model} of {release.ds} is not live, so it cannot be written anew; promote it")
    artefact_path(root, release)
    return _move(_folder(root, model), moves, "promoted", release, "written anew in its place")


def newest_day(root: Path, model: str) -> str:
    """The newest day that was ever live, empty when there was none: later ones only may go live."""
    return max((move.release.ds for move in history(root, model)), default="")


def artefact_path(root: Path, release: Release) -> Path:
    """Folder of a release's artefact.

    Raises:
        ReleaseError: it is not there, or a link leads out of the world's home.
    """
    home = Path(root).resolve().parent
    path = (home / release.path).resolve()
    if not path.is_relative_to(home):
        raise ReleaseError(f"release path {release.path!r} leads out of {home}; move the artefact into it")
    if not path.is_dir():
        raise ReleaseError(
            f"release of {release.ds} has no folder {release.path!r} below {home}; restore or retrain it"
        )
    return path


def _require_reason(what: str, reason: str) -> None:
    if not reason.strip():
        raise ReleaseError(f"{what} needs a reason; say in a few words why")


def _is(pattern: re.Pattern[str], text: object) -> bool:
    return isinstance(text, str) and pattern.fullmatch(text) is not None


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _folder(root: Path, model: str) -> Path:
    if not _is(_NAME, model):
        raise ReleaseError(f"model name {model!r} is not a name; use letters, digits, '_', '-' and single dots")
    return Path(root) / model


def _live_record(folder: Path) -> Record | None:
    pointer = folder / "live.json"
    try:
        found = _read_json(pointer)
    except FileNotFoundError:
        _refuse_lost_pointer(folder)
        return None
    if set(found) != {"sequence", "digest"} or not isinstance(found["sequence"], int):
        raise ReleaseError(f"{pointer} is damaged: it must hold sequence and digest; {_mend(folder)}")
    record = _read_record(folder, found["sequence"])
    if record.release.digest != found["digest"]:
        raise ReleaseError(f"{pointer} and its record name different digests; {_mend(folder)}")
    return record


def _refuse_lost_pointer(folder: Path) -> None:
    """A record that names a predecessor proves that something was live."""
    for path in sorted((folder / "history").glob("*.json")):
        if _read_json(path).get("previous") is not None:
            raise ReleaseError(f"{folder / 'live.json'} is lost though releases were live; {_mend(folder)}")


def _read_record(folder: Path, sequence: int) -> Record:
    path = folder / "history" / f"{sequence:06d}.json"
    try:
        found = _read_json(path)
        record = Record(**{**found, "release": Release(**found["release"])})
        previous = -1 if record.previous is None else record.previous
        sound = record.sequence == sequence and previous < sequence and record.action in ("promoted", "rolled_back")
    except FileNotFoundError:
        raise ReleaseError(f"release record {path} is lost; {_mend(folder)}") from None
    except (TypeError, KeyError) as error:
        raise ReleaseError(f"release record {path} is damaged ({error}); {_mend(folder)}") from None
    if not sound:
        raise ReleaseError(f"release record {path} is damaged (it names record {record.sequence}); {_mend(folder)}")
    return record


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ReleaseError(f"{path} cannot be read ({error.strerror or error}); let whoever serves read it") from None
    except ValueError as error:
        raise ReleaseError(f"{path} is torn or not JSON ({error}); {_mend(_model_folder(path))}") from None
    if not isinstance(found, dict):
        raise ReleaseError(f"{path} is damaged: it holds no object; {_mend(_model_folder(path))}")
    return found


def _model_folder(path: Path) -> Path:
    return path.parent.parent if path.parent.name == "history" else path.parent


def _mend(folder: Path) -> str:
    return (
        f"restore {folder} from a backup, or move live.json and history aside and materialize the newest day's "
        f"{'gem_release' if folder.name == GEM else f'{folder.name}/package'} again"
    )


def _move(
    folder: Path,
    moves: list[Record],
    action: Literal["promoted", "rolled_back"],
    release: Release,
    reason: str,
) -> Record:
    """Write the record, then point at it; every step is on disk before the next one."""
    records = folder / "history"
    records.mkdir(parents=True, exist_ok=True)
    sequence = max((int(path.stem) for path in records.glob("[0-9]" * 6 + ".json")), default=0) + 1
    previous = moves[-1].sequence if moves else None
    record = Record(sequence, action, release, reason, previous, datetime.now(UTC).isoformat(timespec="seconds"))
    name = records / f"{sequence:06d}.json"
    staged = _staged(name, asdict(record))
    try:
        os.link(staged, name)
    except FileExistsError:
        raise ReleaseError(f"another process wrote {name}; hold the world's writer lock and try again") from None
    finally:
        staged.unlink()
    _sync(records)
    _staged(folder / "live.json", {"sequence": sequence, "digest": release.digest}).replace(folder / "live.json")
    _sync(folder)
    _sync(folder.parent)
    return record


def _staged(target: Path, content: dict[str, Any]) -> Path:
    """The content beside its target, on disk, under a name that no reader looks at."""
    staged = target.with_name(f".{target.name}.{os.getpid()}")
    with staged.open("w") as file:
        json.dump(content, file, indent=1, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    return staged


def _sync(folder: Path) -> None:
    """Put a folder's entries on disk, so that a rename survives a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
